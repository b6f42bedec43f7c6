"""The kinds of programs that are killed: what each is told, and what must be so afterwards."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from estimand.cluster.addresses import free_ports
from tests.soak import lives, programs
from tests.soak.lives import Failed, Life, pick

Settings = dict[str, Any]
MODES = ("plain", "single_thread", "xla", "auto")


def drawn(chance: random.Random, models: tuple[str, ...], inputs: tuple[str, ...]) -> Settings:
    """A program of one model, one input and one configuration."""
    config = pick(
        chance,
        tf_random_seed=(chance.randrange(1000), None),
        block_mode=MODES,
        save_checkpoints_steps=(1, 2, 3, 5, 8),
        keep_checkpoint_max=(1, 2, 5),
        save_summary_steps=(None, 1, 7),
        log_step_count_steps=(None, 1, 10),
        check_data=(True, False),
        max_steps_per_call=(None, 1, 4),
    )
    return {
        "config": config,
        **pick(
            chance,
            model=models,
            input=inputs,
            batch=(4, 8, 16),
            steps=(20, 35, 50, 80),
            drop_remainder=(False, True),
            synchronous=(False, False, True),
        ),
    }


class Case:
    """One program with its settings, in a folder of its own."""

    name = ""
    program = ""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.whole, self.killed = folder / "whole", folder / "killed"
        self.log = folder / "log"
        self.seconds = 1.0  # that a run takes from its first step on

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        raise NotImplementedError

    # What a subclass may do in another way

    def begin(self, model_dir: Path) -> Life:
        """Start the program, on a model_dir that may have been left by an earlier life of it."""
        self.started(model_dir).unlink(missing_ok=True)
        text = json.dumps(self.settings)
        return Life(lambda: [lives.program(self.program, self.folder, model_dir, text)], self.log)

    def victims(self, life: Life, chance: random.Random) -> list[Any]:
        return life.processes

    def look(self) -> None:
        """After each kill: what is there is whole."""
        lives.newest_values(self.killed)

    def compare(self) -> None:
        """At the end: everything is as in a run that was never killed."""
        lives.assert_same(
            lives.newest_values(self.whole), lives.newest_values(self.killed), "checkpoint"
        )

    # Running

    def started(self, model_dir: Path) -> Path:
        return model_dir.with_suffix(".started")

    def prepare(self) -> None:
        """The data, and the run that is not killed."""
        self.folder.mkdir(parents=True)
        files = lives.program("write_files", self.folder, self.whole, "{}")
        if files.wait(lives.PATIENCE) != 0:
            raise Failed(f"the files could not be written:\n{self.log.read_text()}")
        if self.seeded:
            self.run_whole()

    @property
    def seeded(self) -> bool:
        """Whether two runs from the start are alike: with a seed, and no measuring of times."""
        return self.settings["config"].get("tf_random_seed") is not None

    def run_whole(self) -> None:
        life = self.begin(self.whole)
        lives.outlives(life, self.started(self.whole).exists, lives.PATIENCE, 0)
        first_step = time.monotonic()
        self.finish(life)
        self.seconds = time.monotonic() - first_step

    def finish(self, life: Life) -> None:
        codes = life.wait()
        if any(codes):
            raise Failed(f"exit codes {codes}:\n{life.printed()}")

    def run_killed(self, chance: random.Random, kills: int) -> int:
        """Kill it so often before it is done; how many kills found it alive."""
        done = 0
        for number in range(kills):
            life = self.begin(self.killed)
            started = self.started(self.killed).exists
            # A first life without a seed gets as far as drawing one: what follows is compared.
            early = chance.random() < 0.2 and (self.seeded or number > 0)
            wait = chance.random() * 2 if early else lives.PATIENCE
            pause = 0 if early else chance.random() * 2 * self.seconds / (kills + 1)
            if lives.outlives(life, (lambda: False) if early else started, wait, pause):
                self.finish(life)
                break
            done += life.kill(self.victims(life, chance)) > 0
            self.let_go(life)
            self.look()
            if number == 0 and not self.seeded:
                self.branch_off()
        if not self.seeded and not self.whole.exists():
            self.branch_off()  # its first life was over before it was killed
        self.finish(self.begin(self.killed))
        return done

    def let_go(self, life: Life) -> None:
        """After the kill: whoever is left ends, too."""
        life.kill()

    def branch_off(self) -> None:
        """A run without a seed: it is compared with one that goes on from its first death."""
        if self.killed.exists():
            lives.copied(self.killed, self.whole)
        else:
            self.killed.mkdir()
        self.run_whole()


class Training(Case):
    name = program = "train"

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        return drawn(chance, tuple(programs.MODELS), programs.INPUTS)


class TrainingAndEvaluation(Case):
    name = program = "train_and_evaluate"

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        given = drawn(chance, tuple(programs.MODELS), programs.INPUTS)
        given["config"]["save_checkpoints_steps"] = chance.choice((5, 8, 10))
        given["exporters"] = chance.sample(["best", "latest", "final"], chance.randrange(4))
        given["evaluate_every"] = chance.choice((None, 7, 10))
        return given

    def look(self) -> None:
        super().look()
        for base in sorted(self.killed.glob("export/*")):
            lives.exported_values(base)

    def compare(self) -> None:
        super().compare()
        results = [path.with_suffix(".result").read_text() for path in (self.whole, self.killed)]
        if results[0] != results[1]:
            raise Failed(f"metrics: {results[0]} and {results[1]}")
        for name in self.settings["exporters"]:
            newest = []
            for model_dir in (self.whole, self.killed):
                versions = lives.exported_values(model_dir / "export" / name)
                if not versions:
                    raise Failed(f"there is no export {name!r} in {model_dir}")
                newest.append(versions[max(versions)])
            lives.assert_same(newest[0], newest[1], f"export {name!r}")


class Exporting(Case):
    name = program = "export"

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        given = drawn(chance, ("v1 adam", "keras adam", "linear", "dnn"), ("seeded",))
        given["config"] |= {"tf_random_seed": 1, "block_mode": "plain"}
        return {**given, "steps": 2}

    def run_whole(self) -> None:
        trains = lives.program("train", self.folder, self.whole, json.dumps(self.settings))
        if trains.wait(lives.PATIENCE) != 0:
            raise Failed(f"training failed:\n{self.log.read_text()}")
        lives.copied(self.whole, self.killed)
        self.seconds = 2.0

    def look(self) -> None:
        trained = lives.newest_values(self.killed)
        for version, values in lives.exported_values(self.folder / "exports").items():
            ours = {name: trained[name] for name in values}
            lives.assert_same(ours, values, f"version {version}")

    def finish(self, life: Life) -> None:
        """It never ends: one more version is enough."""
        if lives.outlives(life, self.started(self.killed).exists, lives.PATIENCE, 0):
            raise Failed(f"ended by itself:\n{life.printed()}")
        life.kill()

    def compare(self) -> None:
        self.look()
        if not lives.exported_values(self.folder / "exports"):
            raise Failed("there is no version at all")


class Cluster(Case):
    """Processes with a TF_CONFIG; each life has ports of its own."""

    roles: ClassVar[dict[str, int]]

    def begin(self, model_dir: Path) -> Life:
        self.started(model_dir).unlink(missing_ok=True)
        ports = iter(free_ports(sum(self.roles.values())))
        cluster = {
            role: [f"127.0.0.1:{next(ports)}" for _ in range(count)]
            for role, count in self.roles.items()
        }
        text = json.dumps(self.settings)

        def start(role: str, index: int) -> Any:
            task = {"type": role, "index": index}
            return lives.program(
                self.program, self.folder, model_dir, text,
                TF_CONFIG=json.dumps({"cluster": cluster, "task": task}),
                ESTIMAND_CLUSTER_TIMEOUT_SECS="120",
            )  # fmt: skip

        tasks = [(role, index) for role, count in self.roles.items() for index in range(count)]
        return Life(lambda: [start(*task) for task in tasks], self.log)

    def victims(self, life: Life, chance: random.Random) -> list[Any]:
        return chance.choice([life.processes, [chance.choice(life.processes)]])


class Team(Cluster):
    """Two processes that train together, in step."""

    name, program = "team", "train"
    roles: ClassVar[dict[str, int]] = {"worker": 2}

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        given = drawn(chance, ("v1 adam", "keras adam"), ("seeded", "numpy"))
        given["config"] |= {"tf_random_seed": 5, "block_mode": "plain"}
        return {**given, "drop_remainder": True}


class Served(Cluster):
    """A chief, workers and a parameter server.

    Workers do not wait for each other, so that no two runs are alike, and one that dies may have
    done a part of a step which another one does again. But each step changes w by the same.
    """

    name, program = "served", "served"
    roles: ClassVar[dict[str, int]] = {"chief": 1, "worker": 1, "ps": 1}

    @classmethod
    def draw(cls, chance: random.Random) -> Settings:
        given = drawn(chance, ("v1 adam",), ("slices", "seeded"))
        given["config"] |= {"tf_random_seed": 5, "block_mode": "auto"}
        return given

    def run_whole(self) -> None:
        self.seconds = 1.0

    def victims(self, life: Life, chance: random.Random) -> list[Any]:
        return chance.choice([life.processes, life.processes[:1], life.processes[2:]])

    def look(self) -> None:
        self._check_steps(lives.newest_values(self.killed))

    def compare(self) -> None:
        values = lives.newest_values(self.killed)
        self._check_steps(values)
        if not values or values["global_step"] < self.settings["steps"]:
            raise Failed(f"it ended at step {values.get('global_step')}")

    def _check_steps(self, values: dict[str, Any]) -> None:
        if values and set(values["w"].tolist()) != {-0.25 * int(values["global_step"])}:
            raise Failed(f"at step {values['global_step']} w is {values['w']}")


class Launched(Team):
    """The same team, started by `estimand launch`; it is the launcher that is killed."""

    name = "launched"

    def begin(self, model_dir: Path) -> Life:
        self.started(model_dir).unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "estimand", "launch", "--workers", "1", "--",
            str(Path(programs.__file__)), self.program,
            str(self.folder), str(model_dir), json.dumps(self.settings),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(lives.REPOSITORY)}

        def start() -> list[Any]:
            with self.log.open("ab") as log:
                return [subprocess.Popen(command, env=environment, stdout=log, stderr=log)]

        return Life(start, self.log)

    def victims(self, life: Life, chance: random.Random) -> list[Any]:
        return life.processes

    def let_go(self, life: Life) -> None:
        """Nothing that it started outlives it."""
        end = time.monotonic() + lives.PATIENCE
        while left := processes_with(str(self.killed)):
            if time.monotonic() > end:
                raise Failed(f"the launcher was killed, and left {left}")
            time.sleep(0.02)


def processes_with(argument: str) -> list[str]:
    """Command lines of running processes that have an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            parts = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if argument in parts:
            found.append(" ".join(parts))
    return found


KINDS: dict[str, tuple[type[Case], float, Callable[[random.Random], int]]] = {
    # The kind, its share of all cases, and how many kills a case has.
    "train": (Training, 0.58, lambda chance: chance.randint(8, 20)),
    "train_and_evaluate": (TrainingAndEvaluation, 0.18, lambda chance: chance.randint(6, 12)),
    "export": (Exporting, 0.1, lambda chance: chance.randint(8, 20)),
    "team": (Team, 0.06, lambda chance: chance.randint(2, 4)),
    "served": (Served, 0.06, lambda chance: chance.randint(2, 4)),
    "launched": (Launched, 0.02, lambda chance: 2),
}
