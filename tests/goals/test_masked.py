"""Masked: hand-made dice give hand-checked features; rates hold; words stay whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.goals.tiny import VOCABULARY, Dice, ids, tokenizer
from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch, Layout
from tianci.errors import UserError
from tianci.goals.base import Joint
from tianci.goals.objectives import parse
from tianci.goals.objectives.masked import Corrupted, Masked
from tianci.models.bert import Config
from tianci.train.examples import Words

CLS, SEP, MASK = ids("[CLS] [SEP] [MASK]")
ORDINARY = np.arange(5, len(VOCABULARY))


def corrupt(goal: Masked, text: str, rng: object, sequence: list[int] | None = None) -> Corrupted:
    tokens = np.array(ids(text))
    starts = np.array([not token.startswith("##") for token in text.split()])
    first = np.flatnonzero(np.diff(sequence or [0] * len(tokens), prepend=-1))
    special = np.isin(tokens, [CLS, SEP])
    return goal.corrupt(tokens, first, special, starts, MASK, ORDINARY, rng)  # type: ignore[arg-type]


TEXT = "[CLS] play ##ing 我 有 [SEP]"  # words: [CLS], play ##ing, 我, 有, [SEP]


def test_each_sequence_gets_its_share() -> None:
    # half of three words: two of them, as the first die says; then which ones
    how = [0.85, 0.79]  # "playing" becomes random, 我 [MASK]
    dog, cat = (VOCABULARY.index(t) - 5 for t in ("dog", "cat"))
    hidden = corrupt(Masked(rate=0.5), TEXT, Dice([0.6], [0.1, 0.5], how, [dog, cat]))
    assert hidden.tokens.tolist() == ids("[CLS] dog cat [MASK] 有 [SEP]")
    assert hidden.chosen.tolist() == [False, True, True, True, False, False]
    assert hidden.places.tolist() == [1, 2, 3]

    hidden = corrupt(Masked(rate=0.5), TEXT, Dice([0.4], [0.9], [0.0], []))  # or one
    assert hidden.tokens.tolist() == ids("[CLS] play ##ing 我 [MASK] [SEP]")
    assert hidden.places.tolist() == [4]

    # two sequences of four words: one and two of them, whatever the other has
    text = "[CLS] 我 你 他 的 [SEP] [CLS] 我 你 他 的 [SEP]"
    dice = Dice([0.1, 0.9], [0.3, 0.99, 0.0], [0.0] * 3, [])
    hidden = corrupt(Masked(rate=0.3), text, dice, [0] * 6 + [1] * 6)
    assert hidden.tokens.tolist() == ids(
        "[CLS] 我 [MASK] 他 的 [SEP] [CLS] [MASK] 你 他 [MASK] [SEP]"
    )


def test_no_word_is_taken_twice() -> None:
    # both want 我; the one that loses draws again, meets it once more, and gets 有
    dice = Dice([0.6], [0.5, 0.5], [0.4], [0.9], [0.0] * 2, [])
    hidden = corrupt(Masked(rate=0.5), TEXT, dice)
    assert hidden.tokens.tolist() == ids("[CLS] play ##ing [MASK] [MASK] [SEP]")


def test_high_rates_draw_what_is_left_out() -> None:
    hidden = corrupt(Masked(rate=0.75), TEXT, Dice([0.5], [0.9], [0.0] * 2, []))
    assert hidden.tokens.tolist() == ids("[CLS] [MASK] [MASK] [MASK] 有 [SEP]")


def test_chosen_word_may_stay() -> None:
    hidden = corrupt(Masked(rate=0.25), TEXT, Dice([0.5], [0.4], [0.9], []))
    assert hidden.tokens.tolist() == ids(TEXT)
    assert hidden.chosen.tolist() == [False, False, False, True, False, False]


def test_a_sequence_begins_a_word() -> None:
    # the piece at the beginning of the second sequence is no part of the last word of the first
    dice = Dice([0.6, 0.8], [0.9, 0.0], [0.0, 0.95], [])
    hidden = corrupt(Masked(rate=0.25), "我 play ##ing ##ed", dice, [0, 0, 1, 1])
    assert hidden.tokens.tolist() == ids("我 [MASK] ##ing ##ed")
    assert hidden.places.tolist() == [1, 2, 3]


def test_span_hides_neighbours() -> None:
    # spans begin at 我, 他 and 中; the first two are chosen, one of their words stays
    text = "我 你 他 们 中 国"
    new = [0.1, 0.9, 0.1, 0.9, 0.1, 0.9]
    dice = Dice(new, [0.9], [0.0, 0.5], [0.0, 0.1, 0.95, 0.2], [])
    hidden = corrupt(Masked(rate=0.4, span=2), text, dice)
    assert hidden.tokens.tolist() == ids("[MASK] [MASK] 他 [MASK] 中 国")
    assert hidden.places.tolist() == [0, 1, 2, 3]


def random_batch(
    seed: int, sequences: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, first ones, special, word starts: lengths from 1 to 40, a third are pieces."""
    r = np.random.default_rng(seed)
    lengths = r.integers(1, 40, sequences)
    tokens = r.choice(ORDINARY, int(lengths.sum() + 2 * sequences))
    special = np.zeros(len(tokens), bool)
    ends = np.cumsum(lengths + 2)
    special[ends - 1] = special[ends - lengths - 2] = True
    tokens[special] = SEP
    return tokens, ends - lengths - 2, special, r.random(len(tokens)) > 1 / 3


@pytest.mark.parametrize("goal", [Masked(), Masked(rate=0.3, mask=0.5, random=0.2), Masked(span=3)])
def test_rates(goal: Masked) -> None:
    tokens, first, special, starts = random_batch(1, 4000)
    rng = np.random.default_rng(2)
    hidden = goal.corrupt(tokens, first, special, starts, MASK, ORDINARY, rng)
    chosen, free = hidden.chosen, ~special
    assert not (chosen & special).any()
    assert (hidden.tokens[~chosen] == tokens[~chosen]).all()
    words = free.sum() / 1.5
    bound = 4 * math.sqrt(goal.rate * (1 - goal.rate) / words)
    assert abs(chosen.sum() / free.sum() - goal.rate) < bound
    count = chosen.sum() / 1.5
    masked = (hidden.tokens == MASK).sum() / chosen.sum()
    assert abs(masked - goal.mask) < 4 * math.sqrt(goal.mask * (1 - goal.mask) / count)
    moved = (chosen & (hidden.tokens != MASK) & (hidden.tokens != tokens)).sum() / chosen.sum()
    share = goal.random * (1 - 1 / len(ORDINARY))
    assert abs(moved - share) < 4 * math.sqrt(share * (1 - share) / count)


def test_expected_share_is_exact_for_short_sequences() -> None:
    # one word of one token: hidden with probability 0.15, neither never nor always
    tokens, first = np.full(20000, 7), np.arange(20000)
    nothing, all_ = np.zeros(20000, bool), np.ones(20000, bool)
    hidden = Masked().corrupt(
        tokens, first, nothing, all_, MASK, ORDINARY, np.random.default_rng(0)
    )
    assert abs(hidden.chosen.mean() - 0.15) < 4 * math.sqrt(0.15 * 0.85 / 20000)


def test_words_are_never_split() -> None:
    tokens, first, special, starts = random_batch(3, 1000)
    word = np.cumsum(starts | special | np.r_[True, special[:-1]])
    for whole in (True, False):
        hidden = Masked(whole_words=whole).corrupt(
            tokens, first, special, starts, MASK, ORDINARY, np.random.default_rng(4)
        )
        chosen = np.bincount(word, hidden.chosen)
        half = (chosen > 0) & (chosen < np.bincount(word))
        assert half.any() != whole
        masks = np.bincount(word, hidden.tokens == MASK)
        assert ((masks > 0) & (masks < chosen)).any() != whole  # one way per word


def test_spans_are_longer() -> None:
    def mean_run(goal: Masked) -> float:
        tokens = np.full(40_000, 7)
        hidden = goal.corrupt(
            tokens,
            np.arange(0, 40_000, 100),
            np.zeros(40_000, bool),
            np.ones(40_000, bool),
            MASK,
            ORDINARY,
            np.random.default_rng(5),
        )
        begins = hidden.chosen & ~np.r_[False, hidden.chosen[:-1]]
        return float(hidden.chosen.sum() / begins.sum())

    assert mean_run(Masked()) == pytest.approx(1 / 0.85, abs=0.05)
    # spans of mean 3, some of them cut at the share or the border, some meeting
    assert 2.5 < mean_run(Masked(span=3)) < 4


def test_text_without_words_is_left_alone() -> None:
    hidden = corrupt(Masked(), "[CLS] [SEP]", np.random.default_rng(0))
    assert hidden.tokens.tolist() == [CLS, SEP] and not hidden.chosen.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0.0}, "masked.rate is 0.0"),
        ({"rate": 1.0}, "masked.rate is 1.0"),
        ({"mask": 0.8, "random": 0.3}, "is 1.1, but may be at most 1"),
        ({"mask": -0.1}, "may be at most 1"),
        ({"mask": math.nan}, "is nan, but may be at most 1"),
        ({"span": 0.5}, "masked.span is 0.5"),
        ({"span": math.nan}, "masked.span is nan"),
        ({"span": math.inf}, "masked.span is inf"),
        ({"ratio": 0.5}, 'unknown setting "masked.ratio"; did you mean "masked.rate"'),
        ({"rate": "much"}, "setting masked.rate: expected `float`"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse("masked", {"masked": settings})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("maskd", 'did you mean "masked"'),
        ("masked+masked", "twice"),
        ("masked+next_sentence+sentence_order", "only one objective"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(name)


def test_loss_is_the_cross_entropy_of_the_chosen() -> None:
    config = Config(vocabulary=len(VOCABULARY), width=16, layers=1, heads=2, hidden=32, positions=8)
    model = checkpoint.create("bert", config, ("masked",))
    loud(model.model.eval(), 1)
    loud(model.heads["masked"].eval(), 2)
    targets = {"masked_at": torch.tensor([1, 4, 6]), "masked_is": torch.tensor([9, 8, 7])}
    batch = Batch(torch.tensor([2, 9, 3, 2, 4, 6, 7, 3]), Layout([3, 5]), torch.zeros(8).long())
    batch = Batch(batch.tokens, batch.layout, batch.segments, targets)
    goal = Masked()
    states = model.model(batch)
    loss = goal.loss(model.model, model.heads, states, batch)
    logits = model.heads["masked"](states.last, model.model.token_table())[[1, 4, 6]]
    right = F.cross_entropy(logits, targets["masked_is"], reduction="sum")
    assert loss.total.item() == pytest.approx(right.item(), rel=1e-5)
    assert int(loss.hits) == int((logits.argmax(-1) == targets["masked_is"]).sum())
    assert Joint((goal,)).count(batch) == {"masked": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("今天下雨 playing", "今 天 [UNK] 雨 play+##ing"),
        ("圆周率约3.14。", "圆 周 率 约 3+.+14 。"),
        ("增长12.5%，", "增 长 12+.+5+% ，"),
        ("有1,000人", "有 1+,+000 人"),
        ("the dog 3.", "the dog 3 ."),  # the full stop of a sentence is no part of the number
        ("3, a", "3 , a"),
        ("5%3", "5+% 3"),
        (". 5", ". 5"),
        ("我played的", "我 play+##ed 的"),
        ("%", "%"),
    ],
)
def test_words_of_mixed_text(text: str, words: str) -> None:
    vocabulary = tokenizer()
    row = vocabulary.encode([text], special=False)[0]
    starts = Words.of(vocabulary).starts(np.array(row.ids))
    found = "".join(
        (" " if start else "+") + token for token, start in zip(row.tokens, starts, strict=True)
    )
    assert found.strip() == words


@pytest.mark.parametrize("span", [0.0, 3.0])
@pytest.mark.parametrize("rate", [0.02, 0.15, 0.6, 0.9])
def test_each_word_is_as_likely_as_the_next(rate: float, span: float) -> None:
    tokens, first, special, starts = random_batch(11, 40)
    word = np.cumsum(starts | special | np.r_[True, special[:-1]]) - 1
    begins = np.flatnonzero(np.diff(word, prepend=-1))
    free = ~special[begins]
    owner = np.searchsorted(first, begins, side="right")[free]
    rng, rounds = np.random.default_rng(6), 800
    seen = np.zeros((rounds, len(begins)), bool)
    for number in range(rounds):
        goal = Masked(rate=rate, span=span)
        hidden = goal.corrupt(tokens, first, special, starts, MASK, ORDINARY, rng)
        seen[number, word[hidden.places]] = True
    assert not seen[:, ~free].any()
    share = seen[:, free].mean(0)
    assert np.abs(share - rate).max() < 5 * math.sqrt(rate * (1 - rate) / rounds)
    if not span:  # and each sequence has its share, up or down to a whole number
        counts = np.array([np.bincount(owner, row) for row in seen[:, free]])
        wanted = rate * np.bincount(owner)
        assert (np.abs(counts - wanted) < 1).all()
    elif rate < 0.5:
        both = (seen[:, 1:] & seen[:, :-1]).mean(0)[free[1:] & free[:-1]].mean()
        assert both > 2 * rate**2  # neighbours are hidden together
