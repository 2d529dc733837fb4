"""One sitting of a pre-training run: what happens around the loop."""

from __future__ import annotations

import dataclasses
import math
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.data.corpus import Corpus
from tianci.data.store import SplitStore
from tianci.errors import Failed, Stopped
from tianci.goals.base import Joint
from tianci.goals.language import LANGUAGE, language_of
from tianci.room import shortage
from tianci.text.tokenizer import Tokenizer
from tianci.train import estimate, first_model, journal, optimizer, parallel, probe, record, state
from tianci.train.bar import Bar
from tianci.train.examples import Examples, Recipe
from tianci.train.held_out import HeldOut
from tianci.train.journal import Journal, line_due
from tianci.train.loop import Loop, Step, mean_of
from tianci.train.monitor import Finding, Monitor, share_of_copies
from tianci.train.place import publish
from tianci.train.presets import Pace
from tianci.train.settings import Pretrain, Train
from tianci.train.signals import catch
from tianci.train.trouble import NotANumber, write_batch
from tianci.train.verdict import verdict


class TrainingError(Failed):
    """Training cannot go on; the message says why and what to change."""


@dataclass
class Session:
    """One sitting of a run, from where it stands to the end or to a signal."""

    run: Path
    wanted: Pretrain
    settings: Train
    seed: int
    quiet: bool
    world: parallel.World
    corpus: Corpus
    tokenizer: Tokenizer
    goal: Joint
    model: Checkpoint
    usual: Pace
    folder: Path | None  # the checkpoint to go on from
    sections: Mapping[str, Any]
    wish: Mapping[str, Any]  # what the command said

    def go(self) -> dict[str, Any]:
        # decided once and recorded: a resumed run, or another process, must not find another answer
        width, device = self.model.model.config.width, self.world.device
        wanted = self.settings.precision
        chosen = parallel.of_first(lambda: probe.precision(wanted, device, width), self.world)
        settings = self.settings = dataclasses.replace(self.settings, precision=chosen)
        bf16 = chosen == "bf16"
        self.lr = settings.lr or self.usual.lr
        self.batch_tokens = settings.batch_tokens or self.usual.batch_tokens
        self.warmup = self.usual.warmup if settings.warmup is None else settings.warmup
        self.store = SplitStore(self.corpus.split("train"))
        modules = [self.model.model, *self.model.heads.values()]
        adam = optimizer.make(modules, settings, self.lr)
        at = state.restore(self.folder, adam) if self.folder else state.State()
        self.examples = cache(self._examples)
        if not self.folder:  # text that this objective cannot use is told before a file is written
            next(self.examples(0).draws(at.position))
        if settings.last_length:
            self.examples(1)  # what is wrong with it is told now, not in the last tenth of the run
        self.held = HeldOut(self.corpus, self.goal, settings, self.batch_tokens)
        if self.world.first and not (self.run / record.RECORD).exists():
            record.write_record(self.run, self.sections, settings, self.seed, self.wish)
        # without a checkpoint it begins anew, and so does its log
        since = at.step if self.folder else -1
        self.journal = Journal(self.run / "log.jsonl", since) if self.world.first else None
        self.monitor = self._monitor()
        self._remember(at)
        if not self.folder and self.world.first:
            self._tell(self._expected(at))
        if other := self._other_threads():
            self._tell(f"! {other}")
        self._say(
            "resume" if self.folder else "start",
            step=at.step,
            lr=self.lr,
            warmup=self.warmup,
            unigram_entropy=self.monitor.unigram,
            bigram_entropy=self.monitor.bigram,
            parameters=self.model.parameter_count,
            precision=settings.precision,
            threads=torch.get_num_threads(),
        )
        needed = state.bytes_needed(self.model, settings.keep)
        if short := shortage(self.run, needed, f"{settings.keep} checkpoints and a new one"):
            self._report(Finding("disk", f"{short}; make room, or set train.keep=1"), at.step)
        for finding in self.monitor.before():
            self._report(finding, at.step)
        self.bar = Bar(self.quiet or not self.world.first, resumed=self.folder is not None)
        self.loop = Loop(
            self.model, self.goal, adam, settings, self.lr, self.warmup, self.examples, at,
            self.world, bf16, self.seed, self._on_step, self._save, self._evaluate,
            go_back=self._go_back, note=self._note,
        )  # fmt: skip
        self.window: list[Step] = []
        self.last_log = time.monotonic()
        self.reached = self.loop.progress()  # at the step before
        self.saved = at.step if self.folder else -1
        with catch(self.loop) as received:
            try:
                self.loop.run()
            except NotANumber as fault:
                raise self._stopped_without_number(fault) from fault
            except TrainingError:
                self._pictures()  # a run that went wrong needs its picture most
                raise
            finally:
                self.bar.close()
        self._flush()
        if self.saved != at.step:
            self._save(at)
        if self.loop.reached < 1:  # a signal came, to this process or to another one
            self._pictures()
            number = (received or [signal.SIGTERM])[0]
            how = f"tianci pretrain --resume {self.run}"
            raise Stopped(number, f"stopped at step {at.step}, saved; go on with: {how}")
        return self._finish(at)

    # ---------------------------------------------------------------- pieces

    def _examples(self, phase: int) -> Examples:
        s = self.settings
        length = s.last_length if phase else s.length
        recipe = Recipe(self.goal, length, s.short, self.batch_tokens, self.seed, s.packing)
        return Examples(self.store, self.tokenizer, recipe)

    def _monitor(self) -> Monitor:
        info = self.corpus.info["statistics"]
        return Monitor(
            unigram=float(info["unigram_entropy"]),
            bigram=float(info["bigram_entropy"]),
            layers=int(self.model.model.config.layers),
            lr=self.lr,
            warmup=self.warmup,
            clip=self.settings.clip,
            usual_lr=self.usual.lr,
            unknown_rate=float(info.get("unknown_rate", 0.0)),
            duplicates=share_of_copies(self.corpus.info),
        )

    def _expected(self, at: state.State) -> str:
        """How long it will take and how much memory, before the first step."""
        tokens, batch = self.store.split.tokens, self.batch_tokens
        pool, numbers, _ = next(self.examples(0).draws(at.position))
        bf16 = self.settings.precision == "bf16"
        one_pass, device = self.settings.micro_tokens, self.world.device
        speed = estimate.speed(self.model, self.goal, pool, numbers, device, bf16, one_pass)
        speed *= self.world.size
        found = estimate.estimate(self.model, self.settings, batch, tokens, speed)
        return (
            f"{self.model.family}, {self.model.parameter_count:,} parameters, {self.goal.name}; "
            f"peak rate {self.lr:g}\n{found}"
        )

    def _remember(self, at: state.State) -> None:
        """What the sittings before have seen and said."""
        self.monitor.recall(at.monitor)
        if self.journal and self.folder:
            kept = self.journal.kept
            self.monitor.seen |= {e["fault"] for e in kept if e["event"] == "finding"}
            if not any(e["event"] == "save" and e["step"] == at.step for e in kept):
                self._say("save", step=at.step)  # killed between saving and saying so

    def _other_threads(self) -> str | None:
        """A sentence, where the sitting before had another number of threads."""
        kept = self.journal.kept if self.journal and self.folder else []
        before = [entry["threads"] for entry in kept if "threads" in entry]
        now = torch.get_num_threads()
        if not before or before[-1] == now:
            return None
        return (
            f"this run had {before[-1]} threads before, now {now}: it goes on, but to slightly "
            f"other numbers than an undisturbed run; for the same bits give --threads {before[-1]}"
        )

    def _on_step(self, step: Step) -> None:
        self.window.append(step)
        finding = self.monitor.step(step, self.loop.reached >= self.warmup)
        if finding:
            self._report(finding, step.number)
            if finding.fatal:
                self._flush()
                raise TrainingError(finding.message)
        if line_due(self.window, self.last_log, self.settings.log_every):
            self._flush()

    def _go_back(self) -> state.State:
        """Weights and moments of the last good checkpoint, or of the beginning."""
        folder = state.last_good(self.run)
        if folder:
            at = state.restore(folder, self.loop.optimizer)
            state.copy_weights(checkpoint.read(folder), self.model)
        else:
            at = state.State()
            self.loop.optimizer.state.clear()
            torch.manual_seed(self.seed)
            sizes = self.sections.get("model", {})
            state.copy_weights(
                first_model.start(self.wanted, sizes, self.goal, self.corpus, self.tokenizer),
                self.model,
            )
        self.window = []
        self.held.step = -1  # the steps that come again have other weights
        if self.journal:
            self.journal.back_to(at.step)
        self.monitor.start_over()
        self.monitor.recall(at.monitor)
        return at

    def _note(self, event: str, message: str, **values: Any) -> None:
        """Something happened that people should know; the run goes on."""
        self._flush()
        if event == "return":
            self.reached = self.loop.reached
        self._say(event, step=self.loop.state.step, message=message, **values)
        self._tell(f"! {message}")

    def _stopped_without_number(self, fault: NotANumber) -> TrainingError:
        """The end of a run that cannot be helped: its finding, its batch, its picture."""
        self._flush()
        finding = self.monitor.not_a_number(fault.step)
        path = self.run / f"batch-step-{fault.step}.json"
        if self.world.first:
            write_batch(path, fault, self.tokenizer)
        self._report(finding, fault.step)
        self._pictures()
        return TrainingError(
            f"{finding.message} (the rate was lowered {self.loop.state.returns} times; "
            f"the last batch is in {path})"
        )

    def _flush(self) -> None:
        """Writes the mean of the steps since the last line, and moves the bar."""
        if not self.window:
            return
        means = mean_of(self.window)
        self.window, self.last_log = [], time.monotonic()
        at = self.loop.state
        self._say("step", **means, tokens=at.tokens, seconds=at.seconds)
        self.bar.show(
            self.loop.reached,
            f"step {means['step']}, loss {means['loss']:.3f}, rate {means['lr']:.1e}, "
            f"{means['tokens_per_second']:,.0f} tokens/s",
        )

    def _evaluate(self, at: state.State) -> None:
        """Held-out text, up to twenty times in a run or as often as asked."""
        before, self.reached = self.reached, self.loop.reached
        if not self.world.first or not self.held.due(at.step, before, self.reached):
            return
        result = self.held.ask(at.step, self.model, self.world.device)
        self._say("held", step=at.step, held=result, seconds=at.seconds)
        if (language := language_of(result)) and not math.isnan(self.monitor.smooth):
            finding = self.monitor.held_out(self.monitor.smooth, result[language]["loss"])
            if finding:
                self._report(finding, at.step)

    def _save(self, at: state.State) -> None:
        self.saved = at.step
        at.monitor = self.monitor.memory()
        if self.journal:
            self._flush()
            self.journal.sync()  # what it says up to here belongs to the checkpoint
            self.model.about = {"provenance": self._provenance(at)}
            state.save(self.run, self.model, self.loop.optimizer, at, self.settings.keep)
            self._say("save", step=at.step)

    def _provenance(self, at: state.State) -> dict[str, Any]:
        return {
            "made_by": "tianci pretrain",
            "objective": self.goal.name,
            "steps": at.step,
            "tokens": at.tokens,
            "seconds": round(at.seconds, 1),
            "seed": self.seed,
            "started_from": self.wanted.start_from or None,
            "settings": record.tables(self.sections),
        }

    def _finish(self, at: state.State) -> dict[str, Any]:
        """The verdict, the report, and the model at the top of the run's directory."""
        if not self.world.first:
            return {}
        result = self.held.ask(at.step, self.model, self.world.device)
        speed = at.tokens / max(1e-9, at.seconds)
        flops = probe.training_flops(self.model, self.settings.length)
        info = self.corpus.info["statistics"]
        entries = [e for e in journal.read(self.run / "log.jsonl") if e["event"] == "step"]
        for name in set(result) - set(LANGUAGE):
            finding = self.monitor.pairs(name, result[name]["accuracy"], result[name]["count"])
            if finding:
                self._report(finding, at.step)
        summary = {
            "loss": entries[-1]["loss"] if entries else None,
            "steps": at.step,
            "tokens": at.tokens,
            "seconds": at.seconds,
            "tokens_per_second": speed,
            "share_of_peak": speed
            * flops
            / (probe.peak_flops(self.settings.precision) * self.world.size),
            "precision": self.settings.precision,
            "held": result,
            "unigram_entropy": info["unigram_entropy"],
            "bigram_entropy": info["bigram_entropy"],
            "verdict": verdict(result, info["unigram_entropy"], info["bigram_entropy"]),
            "parameters": self.model.parameter_count,
            "out": str(self.run),
        }
        self._say("end", step=at.step, **summary)
        self.model.about = {"provenance": self._provenance(at), "scores": {"held": result}}
        state.save(self.run, self.model, self.loop.optimizer, at, self.settings.keep)
        self._pictures()
        publish(state.newest(self.run), self.run)  # the last thing: then the run is finished
        if self.journal:
            self.journal.close()
        return summary

    def _pictures(self) -> None:
        if not self.world.first:
            return
        from tianci.train.report import write_report

        for note in write_report(self.run):
            self._tell(note)

    def _report(self, finding: Finding, step: int) -> None:
        self._say("finding", step=step, fault=finding.fault, message=finding.message)
        if not finding.fatal:
            self._tell(f"! {finding.message}")

    def _say(self, event: str, **values: Any) -> None:
        if self.journal:
            self.journal.write(event, **values)

    def _tell(self, text: str) -> None:
        if self.world.first and not self.quiet:
            tqdm.write(text, file=sys.stderr)
