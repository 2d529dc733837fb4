"""One training: a rate, a seed. It can be killed at any moment and goes on to the same bits."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tianci import __version__, checkpoint, manifest
from tianci.checkpoint import Checkpoint
from tianci.errors import unknown
from tianci.evaluate.tasks import answer_examples, tokenizer_of
from tianci.files import read_json, write_json
from tianci.goals.auxiliary import auxiliary
from tianci.goals.base import Joint
from tianci.room import shortage
from tianci.settings import as_table
from tianci.train import average, journal, parallel, state
from tianci.train.bar import Bar
from tianci.train.journal import Journal, line_due
from tianci.train.loop import Loop, Step, mean_of
from tianci.train.settings import Train
from tianci.train.trouble import NotANumber, write_batch
from tianci.tune import strategy
from tianci.tune.remember import Remembering
from tianci.tune.rows_source import RowsSource
from tianci.tune.start import begin, from_scratch
from tianci.tune.work import Diverged, Interrupted, Result, Work, tell

METRIC_EPSILON = 1e-9
SOME_ROWS = 16  # enough to see which scores there are
GPU_TOKENS = 8192  # of one forward pass
PATIENT = 2.0  # seconds after which dev rows get a bar of their own


def run_trial(work: Work, lr: float, seed: int, folder: Path) -> Result:
    """Trains, or goes on, or reads what an earlier sitting finished."""
    done = folder / "result.json"
    if work.world.first:
        _check_best(work, folder)
    parallel.agree(0.0, work.world)  # nobody reads before the first one has looked
    if done.exists():
        return Result(**read_json(done))
    return _Trial(work, lr, seed, folder).go()


def _check_best(work: Work, folder: Path) -> None:
    """A trial whose best model is damaged begins anew: it comes to the same bits."""
    best = folder / "best"
    wrong = manifest.faults(best) if best.exists() and manifest.has_manifest(best) else []
    if wrong:
        tell(work, f"! {best} is damaged: {wrong[0]}; this trial begins anew")
        shutil.rmtree(folder)


class _Trial:
    def __init__(self, work: Work, lr: float, seed: int, folder: Path):
        self.work, self.lr, self.seed, self.folder = work, lr, seed, folder
        self.settings, self.task = work.settings, work.task

    def go(self) -> Result:
        from tianci.train.signals import catch

        saved = state.last_checkpoint(self.folder, self.work.world)
        self.model = self._model(saved)
        tokenizer = tokenizer_of(self.model)
        examples = self.task.examples(self.work.train, tokenizer, self.work.limit, labelled=True)
        self.dev_examples = self.task.examples(
            self.work.dev, tokenizer, self.work.limit, labelled=False
        )
        self.source = RowsSource(
            self.task, examples, self.settings.batch_rows(len(self.work.train)), self.seed
        )
        self.seen = self._seen()
        adam = strategy.optimizer(self.seen, self.settings, self.lr)
        at = state.restore(saved, adam) if saved else state.State()
        learned, total = strategy.learning(self.model)
        self.result = Result(self.lr, self.seed, learned=learned, parameters=total)
        # without a checkpoint it begins anew, and so does its log
        since = at.step if saved else -1
        self._remember_history(since)
        self.journal = Journal(self.folder / "log.jsonl", since) if self.work.world.first else None
        if saved:
            self._say_once("save", step=at.step)  # killed between saving and saying so
        self._say("resume" if saved else "start", step=at.step, lr=self.lr, seed=self.seed,
                  parameters=total, learned=learned, rows=len(self.work.train),
                  metric=self.work.metric)  # fmt: skip
        room = state.bytes_needed(self.model, 2, average=self.settings.average > 0)
        if short := shortage(self.folder, room, "its checkpoints"):
            tell(self.work, f"! {short}; make room")
        silent = self.work.quiet or not self.work.world.first
        self.bar = Bar(silent, resumed=saved is not None, leave=False)
        self.window: list[Step] = []
        self.last_log = time.monotonic()
        self.loop = Loop(
            self.seen, self._goal(), adam, self._train_settings(), self.lr, self.settings.warmup,
            lambda phase: self.source, at, self.work.world, self.work.bf16, self.seed,
            self._on_step, self._save, self._evaluate, strategy.thaw(self.model, self.settings),
            self._go_back, self._note,
        )  # fmt: skip
        self.evaluated = self.result.history[-1]["step"] if self.result.history else -1
        if saved and at.position.batch == 0 and self.evaluated != at.step:
            self._dev(at)  # killed between saving the end of an epoch and judging it
        self._stop_without_patience(at)  # killed before it could stop
        if not saved:
            self._check_metric()
        with catch(self.loop) as received:
            try:
                self.loop.run()
            except NotANumber as fault:
                raise self._stopped_without_number(fault) from fault
            finally:
                self.bar.close()
        self._flush()
        # a signal may have come to another process only; all of them left the loop together
        stopped = self.loop.reached < 1 and not self._out_of_patience()
        if stopped:
            self._save(at)
            raise Interrupted((received or [signal.SIGTERM])[0])
        if self.evaluated != at.step:
            self._dev(at)
        result = self._finish(at)
        if received:
            raise Interrupted(received[0])
        return result

    # ---------------------------------------------------------------- pieces

    def _model(self, saved: Path | None) -> Checkpoint:
        if saved is not None:
            model = checkpoint.read(saved)
            strategy.set_dropout(model, self.settings)
            strategy.choose(model, self.settings)
            return model.to(self.work.world.device)
        make = from_scratch if self.work.scratch else begin
        model = make(self.settings, self.task, self.seed, self.work.tokenizer)
        return model.to(self.work.world.device)

    def _seen(self) -> Checkpoint:
        """The model as the loop sees it: with strategy head its body only remembers."""
        if self.settings.strategies != ("head",):
            return self.model
        body = Remembering(self.model.model, all_layers=self.settings.mix)
        return dataclasses.replace(self.model, model=body)

    def _goal(self) -> Joint:
        parts = [self.task]
        if self.settings.language:
            extra = auxiliary(self.model, tokenizer_of(self.model), self.settings.language)
            return Joint((*parts, extra))
        return Joint(tuple(parts))

    def _train_settings(self) -> Train:
        s, on_cpu = self.settings, self.work.world.device == "cpu"
        return Train(
            steps=s.steps,
            minutes=s.minutes,
            epochs=s.planned_epochs(len(self.work.train)),
            schedule=s.schedule,
            clip=s.clip,
            micro_tokens=max(self.task.piece_tokens, 1 if on_cpu else GPU_TOKENS),
            save_every=s.save_every or self.source.batches_of_epoch,
        )

    def _on_step(self, step: Step) -> None:
        if self.settings.average:
            average.follow(self.loop.optimizer, self.settings.average, step.number)
        self.window.append(step)
        if line_due(self.window, self.last_log, self.settings.log_every):
            self._flush()

    def _flush(self) -> None:
        if not self.window:
            return
        means = mean_of(self.window)
        self.window, self.last_log = [], time.monotonic()
        at = self.loop.state
        self._say("step", **means, tokens=at.tokens, seconds=at.seconds)
        best = f", best {self.work.metric} {self.result.score:.4f}" if self.result.history else ""
        self.bar.show(
            self.loop.reached,
            f"loss {means['loss']:.3f}{best}, {means['tokens_per_second']:,.0f} tokens/s",
        )

    def _go_back(self) -> state.State:
        """Weights and moments of the last good checkpoint, or of the beginning."""
        folder = state.last_good(self.folder)
        state.copy_weights(self._model(folder), self.model)
        if folder:
            at = state.restore(folder, self.loop.optimizer)
        else:
            at = state.State()
            self.loop.optimizer.state.clear()
        self.window = []
        if self.journal:
            self.journal.back_to(at.step)
        self.result.history = [e for e in self.result.history if e["step"] <= at.step]
        if self.result.step > at.step:  # its model is not one of this run any more
            self.result.score, self.result.step = -math.inf, 0
        return at

    def _note(self, event: str, message: str, **values: Any) -> None:
        self._flush()
        self._say(event, step=self.loop.state.step, message=message, **values)
        tell(self.work, f"! {message}")

    def _stopped_without_number(self, fault: NotANumber) -> Diverged:
        """The end of a trial that cannot be helped, with its batch for people to look at."""
        self._flush()
        path = self.folder / f"batch-step-{fault.step}.json"
        if self.work.world.first:
            write_batch(path, fault, tokenizer_of(self.model))
        return Diverged(
            f"{fault}; try a lower --lr than {self.lr:g} or --precision float32 (the last batch "
            f"is in {path})"
        )

    def _evaluate(self, at: state.State) -> None:
        """Dev rows, whenever an epoch has ended."""
        if at.position.batch == 0:
            self._dev(at)

    def _dev(self, at: state.State) -> None:
        with average.averaged(self.loop.optimizer):  # nothing, where no average is kept
            self._judge(at)

    def _judge(self, at: state.State) -> None:
        self.evaluated = at.step
        silent = self.work.quiet or not self.work.world.first
        many, device = len(self.dev_examples), self.work.world.device
        with tqdm(total=many, desc="dev", delay=PATIENT, leave=False, disable=silent) as bar:
            answers = answer_examples(self.seen, self.task, self.dev_examples, device, bar.update)
        joined = self.task.join(self.dev_examples, answers)
        decision = self.task.decide(self.work.dev, joined)
        scores = self.task.score(self.work.dev, joined, decision)
        if self.work.metric not in scores:
            raise unknown("metric", self.work.metric, scores)
        entry = {
            "step": at.step, "epoch": self.source.done(at.position), "scores": scores,
            "decision": decision, "seconds": at.seconds, "tokens": at.tokens,
            "trouble": self.task.trouble(self.work.dev, joined, decision),
        }  # fmt: skip
        self._say("dev", **entry)
        if self._better(entry):
            self._keep_best(entry)
        self.result.history.append(entry)
        self._stop_without_patience(at)

    def _check_metric(self) -> None:
        """A wrong --metric is told before the training, not after its first epoch."""
        names: dict[str, float] = {}
        for rows in (self.work.dev[:SOME_ROWS], self.work.dev):  # all: some scores need two classes
            if not self.settings.metric or self.settings.metric in names:
                return
            examples = self.task.examples(
                rows, tokenizer_of(self.model), self.work.limit, labelled=False
            )
            said = answer_examples(self.model, self.task, examples, self.work.world.device)
            joined = self.task.join(examples, said)
            names = self.task.score(rows, joined, self.task.decide(rows, joined))
        if self.settings.metric not in names:
            raise unknown("metric", self.settings.metric, names)

    def _stop_without_patience(self, at: state.State) -> None:
        if self._out_of_patience():
            self.loop.stopping = True
            self._say_once(
                "stop", step=at.step, reason="no better dev score", patience=self.settings.patience
            )

    def _better(self, entry: dict[str, Any]) -> bool:
        score = entry["scores"][self.work.metric]
        if math.isnan(score) or score <= self.result.score + METRIC_EPSILON:
            return False
        self.result.score, self.result.scores = score, entry["scores"]
        self.result.decision, self.result.trouble = entry["decision"], entry["trouble"]
        self.result.step, self.result.epochs = entry["step"], entry["epoch"]
        return True

    def _out_of_patience(self) -> bool:
        if not self.settings.patience:
            return False
        # an epoch that has not begun to answer (all O, one class) is not one that got worse
        since: int = sum(
            entry["step"] > self.result.step and entry["trouble"] is None
            for entry in self.result.history
        )
        return bool(since >= self.settings.patience)

    def _remember_history(self, since: int) -> None:
        """What dev said before this sitting; all processes must decide by the same."""
        log = self.folder / "log.jsonl"
        for entry in journal.before(journal.read(log), since) if log.exists() else []:
            if entry["event"] == "dev":
                entry.pop("event")
                self._better(entry)
                self.result.history.append(entry)

    def _keep_best(self, entry: dict[str, Any]) -> None:
        if self.work.world.first:
            self._describe(entry)
            checkpoint.write(self.folder / "best", self.model)

    def _describe(self, entry: dict[str, Any] | None) -> None:
        """What tianci.json says of the model."""
        self.model.about = {
            "task": self.task.as_table(),
            "limit": self.work.limit,
            "decision": entry["decision"] if entry else {},
            "scores": {"dev": entry["scores"]} if entry else {},
            "provenance": {
                "made_by": "tianci finetune",
                "tianci": __version__,
                "started_from": self.settings.model,
                "lr": self.lr,
                "seed": self.seed,
                "settings": as_table(self.settings),
            },
        }

    def _save(self, at: state.State) -> None:
        if self.work.world.first:
            self._flush()
            if self.journal:
                self.journal.sync()  # what it says up to here belongs to the checkpoint
            self._describe(None)
            # two: if the newer one is damaged, the older one is there to go on from
            state.save(self.folder, self.model, self.loop.optimizer, at, keep=2)
            self._say("save", step=at.step)

    def _finish(self, at: state.State) -> Result:
        result = self.result
        result.steps, result.tokens, result.seconds = at.step, at.tokens, at.seconds
        self._say("end", step=at.step, score=result.score, best_step=result.step)
        if self.journal:
            self.journal.close()
            write_json(self.folder / "result.json", dataclasses.asdict(result))
            shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)  # never needed again
        return result

    def _say(self, event: str, **values: Any) -> None:
        if self.journal:
            self.journal.write(event, **values)

    def _say_once(self, event: str, step: int, **values: Any) -> None:
        """Says what an earlier sitting may have said already."""
        said = self.journal.kept if self.journal else []
        if not any(e["event"] == event and e["step"] == step for e in said):
            self._say(event, step=step, **values)
