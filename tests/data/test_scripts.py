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
        "中国 Москва ab",  # none has half of the letters
        "中文文字 abcd é",
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
        "Cyrillic",
        "Latin",
    ]
    assert scripts_of([]).tolist() == []
    long = ["中" * (1 << 20), "é" * (1 << 20) + "中"]
    assert [NAMES[kind] for kind in scripts_of(long)] == ["Chinese", "Latin"]
