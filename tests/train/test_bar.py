"""How long the rest of a run will take, at its beginning and after a stop."""

import pytest

from tianci.train.bar import Bar


@pytest.mark.parametrize(("resumed", "remaining"), [(False, "00:13"), (True, "01:20")])
def test_what_was_done_before_a_stop_took_no_time_of_this_process(
    resumed: bool, remaining: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = Bar(quiet=False, resumed=resumed)
    bar.show(0.5, "loss 3")
    bar._bar.start_t -= 20
    bar.show(0.6, "loss 2")
    bar.close()
    last = [line for line in capsys.readouterr().err.split("\r") if "loss 2" in line][-1]
    assert " 60%|" in last and f"00:20<{remaining} " in last  # 0.4 of the run at 0.6 or 0.1 in 20 s
