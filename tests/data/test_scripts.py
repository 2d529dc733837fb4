from tianci.data.scripts import NAMES, scripts_of


def test_the_script_of_most_letters() -> None:
    lines = [
        "plain ASCII, 1999",
        "今天天气很好 and",
        "Привет, мир 2020",
        "俄语：ручная граната образца",
        "これはペンです",
        "한국어 문장",
        "2017 – 2018 …",
        "café naïve",
        "مرحبا",
        "",
    ]
    assert [NAMES[kind] for kind in scripts_of(lines)] == [
        "Latin",
        "Chinese",
        "Cyrillic",
        "Cyrillic",
        "Kana",
        "Hangul",
        "none",
        "Latin",
        "Arabic",
        "Latin",
    ]
    assert scripts_of([]).tolist() == []
