"""Makes sequences of steps from a seed.

It knows which columns each DataFrame has, so that nearly every step is valid; what a result must
be is not its business.
"""

import json
import random
from dataclasses import dataclass
from typing import Final

import msgspec
from tests.campaigns.spark.orders_steps import (
    Act,
    AnyStep,
    ChangeKeys,
    ChangeObjects,
    Checkpoint,
    Delete,
    Derive,
    Expect,
    Flow,
    Load,
    LookUp,
    Merge,
    Operation,
    Persist,
    Publish,
    Purge,
    Recreate,
    Refresh,
    Resume,
    Route,
    Schedule,
    Tables,
    Write,
)
from tests.campaigns.spark.orders_world import (
    BUCKETS,
    HEADERS,
    KEYS,
    OTHER,
    STORE,
    STREAMS,
    TARGET,
    columns_of,
)

FRAMES_MAX: Final = 12
DEPTH_MAX: Final = 4
_KINDS: Final = {
    "seq": "long",
    "revision": "long",
    "timestamp_ns": "long",
    "length": "long",
    "size": "int",
    "timestamp": "time",
    "modificationTime": "time",
    "data": "binary",
    "value": "binary",
    "content": "binary",
}
_ACTIONS: Final = (
    *("collect",) * 4,
    *("count",) * 4,
    "local",
    "arrow",
    "take:3",
    "empty",
    "parquet",
)


@dataclass(frozen=True)
class Known:
    """What the generator knows of a DataFrame."""

    columns: dict[str, str]
    sources: frozenset[str]
    depth: int = 0
    loaded: bool = False


class Generator:
    """Makes one sequence.

    Every second one is narrow: one DataFrame and what is made of it, nothing else changes. There
    the same objects are used most often.
    """

    def __init__(
        self, seed: int, *, length: int, flows: float = 0.06, functions: bool = False
    ) -> None:
        """``functions``: also calls of ``jetspark.spark``, queries over several streams and so on.

        The short form of the tests does without.
        """
        self._functions = functions
        self._dice = random.Random(seed)
        self._narrow = seed % 2 == 0
        self._length = length
        self._flows_share = flows
        self._frames: dict[str, Known] = {}
        self._flows: dict[str, Flow] = {}
        self._last = dict.fromkeys((*STREAMS, TARGET, *BUCKETS), 0)
        self._number = 0
        self._wrote = False
        self._steps: list[AnyStep] = []

    def make(self) -> list[AnyStep]:
        """Return the steps."""
        if self._narrow:
            return self._make_narrow()
        for stream in STREAMS:
            count = self._dice.randrange(30, 90)
            self._steps.append(Publish(stream=stream, seed=self._seed(), count=count))
            self._last[stream] = count
            self._steps.append(self._delete(stream))
        for bucket in BUCKETS:
            self._change_keys(bucket, self._dice.randrange(8, 25))
        self._steps.append(ChangeObjects(store=STORE, seed=self._seed(), count=4))
        for _ in range(2):
            self._load()
        while len(self._steps) < self._length:
            self._next()
        return self._steps

    def _make_narrow(self) -> list[AnyStep]:
        dice = self._dice
        self._last[STREAMS[0]] = 40
        self._steps.append(Publish(stream=STREAMS[0], seed=self._seed(), count=40))
        self._steps.append(self._delete(STREAMS[0]))
        load = Load(
            frame=self._name("rows"),
            format="jetstream",
            source=STREAMS[0],
            options=dice.choice(({}, {}, self._stream_options(STREAMS[0]))),
            sql=dice.random() < 0.3,
        )
        self._take(load)
        while len(self._steps) < self._length // 2:
            pick = dice.random()
            if pick < 0.6:
                self._derive(load.frame if dice.random() < 0.7 else "")
                self._steps.append(Act(frames=(self._any(),), actions=(dice.choice(_ACTIONS),)))
            elif pick < 0.96:
                self._act()
            else:
                # Later: what is cached is not read again.
                self._persist()
        return self._steps

    def _next(self) -> None:
        dice = self._dice
        if dice.random() < self._flows_share:
            self._stream()
            return
        pick = dice.random()
        if pick < 0.07 or not self._frames:
            self._load()
        elif pick < 0.42:
            self._derive()
        elif pick < 0.68:
            self._act()
        elif pick < 0.76 and self._functions:
            self._use()
        elif pick < 0.76:
            self._act()
        elif pick < 0.81:
            self._persist()
        elif pick < 0.84:
            self._checkpoint()
        elif pick < 0.89:
            self._write()
        elif pick < 0.92:
            self._refresh()
        else:
            self._change()

    # The world.

    def _change(self) -> None:
        dice = self._dice
        pick = dice.random()
        stream = dice.choice(STREAMS)
        if pick < 0.5:
            count = dice.randrange(1, 30)
            self._steps.append(Publish(stream=stream, seed=self._seed(), count=count))
            self._last[stream] += count
        elif pick < 0.65:
            self._steps.append(self._delete(stream))
        elif pick < 0.8:
            self._change_keys(dice.choice(tuple(BUCKETS)), dice.randrange(1, 8))
        elif pick < 0.86:
            count = dice.randrange(1, 3)
            self._steps.append(ChangeObjects(store=STORE, seed=self._seed(), count=count))
        elif pick < 0.94:
            below = dice.randrange(2, self._last[stream] // 3 + 3)
            self._steps.append(Purge(stream=stream, below=below))
            self._leave(stream)
        else:
            count = dice.randrange(20, 60)
            self._steps.append(Recreate(stream=stream, seed=self._seed(), count=count))
            self._last[stream] = count
            self._leave(stream)

    def _leave(self, source: str) -> None:
        """Rows were deleted: look once what becomes of an old DataFrame, then load new ones."""
        old = [name for name, known in self._frames.items() if source in known.sources]
        if old:
            some = self._dice.choice(old)
            action = self._dice.choice(("count", "collect"))
            self._steps.append(Act(frames=(some,), actions=(action,)))
        for name in old:
            del self._frames[name]
        for flow in [one for one in self._flows.values() if source in one.source.split(",")]:
            self._steps.append(Resume(flow=flow.flow))
            del self._flows[flow.flow]

    def _delete(self, stream: str) -> Delete:
        last = self._last[stream]
        count = min(last, self._dice.randrange(1, 12))
        return Delete(
            stream=stream, sequences=tuple(sorted(self._dice.sample(range(1, last + 1), count)))
        )

    def _change_keys(self, bucket: str, count: int) -> None:
        self._steps.append(ChangeKeys(bucket=bucket, seed=self._seed(), count=count))
        self._last[bucket] += count

    # DataFrames.

    def _load(self) -> None:
        dice = self._dice
        pick = dice.random()
        if pick < 0.12:
            load = self._load_streams()
        elif pick < 0.68:
            load = self._load_stream()
        elif pick < 0.9:
            load = self._load_bucket()
        else:
            options = {}
            if dice.random() < 0.4:
                options["pathGlobFilter"] = dice.choice(("*.txt", "dir/*", "no*"))
            columns = ("path", "length") if dice.random() < 0.3 else ()
            load = Load(
                frame=self._name("objects"),
                format="nats_object",
                source=STORE,
                options=options,
                columns=columns,
                sql=dice.random() < 0.2,
            )
        self._take(load)

    def _take(self, load: Load) -> None:
        self._steps.append(load)
        kinds = {name: self._kind_of(load, name) for name in columns_of(load)}
        self._keep(load.frame, Known(kinds, frozenset(load.source.split(",")), loaded=True))

    def _load_stream(self) -> Load:
        dice = self._dice
        stream = TARGET if self._wrote and dice.random() < 0.1 else dice.choice(STREAMS)
        options = self._stream_options(stream)
        beyond = self._last[stream] + 1
        if dice.random() < 0.15:
            options["endingOffsets"] = str(dice.randrange(beyond // 2, beyond) + 1)
        elif dice.random() < 0.1:
            options["endingTimestamp"] = self._time(stream)
        elif dice.random() < 0.1:
            options["endingOffsets"] = "open"
        if dice.random() < 0.2:
            # Now and then nothing at all.
            options["startingOffsets"] = str(dice.randrange(1, beyond // 2 + 2))
        elif dice.random() < 0.1 and "endingTimestamp" not in options:
            # A start after the end is refused.
            options["startingTimestamp"] = self._time(stream)
        columns: tuple[str, ...] = ()
        if dice.random() < 0.25:
            known = ["stream", "subject", "seq", "timestamp", "data", "timestamp_ns", "size"]
            if "includeHeaders" in options:
                known.append("headers")
            columns = tuple(dice.sample(known, dice.randrange(1, len(known) + 1)))
        if dice.random() < 0.1:
            options["failOnDataLoss"] = "false"
        return Load(
            frame=self._name("rows"),
            format="jetstream",
            source=stream,
            options=options,
            columns=columns,
            sql=dice.random() < 0.2,
        )

    def _load_streams(self) -> Load:
        """Read several streams, perhaps each from a sequence of its own."""
        dice = self._dice
        names = dice.sample(STREAMS, len(STREAMS))
        options = self._stream_options("*")
        if dice.random() < 0.4:
            starts = {name: dice.randrange(1, self._last[name] // 2 + 2) for name in names}
            options["startingOffsets"] = json.dumps(starts)
        elif self._functions and dice.random() < 0.4:
            times = {name: self._time(name) for name in names}
            options["startingOffsetsByTimestamp"] = json.dumps(times)
        if self._functions and dice.random() < 0.1 and "startingOffsetsByTimestamp" not in options:
            times = {name: self._time(name) for name in names}
            options["endingOffsetsByTimestamp"] = json.dumps(times)
        elif dice.random() < 0.3:
            ends = {name: dice.choice(("latest", self._last[name] + 1)) for name in names}
            options["endingOffsets"] = json.dumps(ends)
        if dice.random() < 0.2:
            options["failOnDataLoss"] = "false"
        return Load(
            frame=self._name("rows"),
            format="jetstream",
            source=",".join(names),
            options=options,
            sql=dice.random() < 0.2,
            pattern=self._functions and dice.random() < 0.3,
        )

    def _stream_options(self, stream: str) -> dict[str, str]:
        """Options that a batch and a streaming read have in common."""
        dice = self._dice
        options: dict[str, str] = {}
        if dice.random() < 0.3:
            options["subject"] = dice.choice(
                (
                    f"{stream}.1",
                    f"{stream}.*",
                    f"{stream}.0.>",
                    f"{stream}.*.x",
                    f"{stream}.0,{stream}.2",
                    f"{stream}.1,{stream}.*.y",
                    f"{stream}.none",
                )
            )
        if dice.random() < 0.35:
            options["includeHeaders"] = dice.choice(("map", "raw"))
        if dice.random() < 0.3:
            options["minPartitions"] = str(dice.choice((1, 3, 7)))
        if dice.random() < 0.2:
            options["maxRecordsPerPartition"] = str(dice.choice((5, 40)))
        if dice.random() < 0.3:
            options["batchSize"] = str(dice.choice((1, 7, 50)))
        if dice.random() < 0.15:
            options["readMode"] = dice.choice(("direct", "consumer"))
        return options

    def _load_bucket(self) -> Load:
        dice = self._dice
        bucket = dice.choice(tuple(BUCKETS))
        options: dict[str, str] = {}
        if dice.random() < 0.4:
            options["keys"] = dice.choice(("a", "c.*", "c.x,d.>", "*", "none"))
        if dice.random() < 0.3:
            options["includeDeleted"] = "true"
        if dice.random() < 0.3:
            options["includeHeaders"] = dice.choice(("map", "raw"))
        if dice.random() < 0.3:
            options["minPartitions"] = str(dice.choice((1, 3)))
        if dice.random() < 0.2 and BUCKETS[bucket] > 1:
            if dice.random() < 0.5:
                options["versionAsOf"] = str(dice.randrange(1, self._last[bucket] + 1))
            else:
                options["timestampAsOf"] = self._time(bucket)
        columns: tuple[str, ...] = ()
        if dice.random() < 0.2:
            columns = tuple(dice.sample(("key", "value", "revision", "operation"), 3))
        return Load(
            frame=self._name("keys"),
            format="nats_kv",
            source=bucket,
            options=options,
            columns=columns,
            sql=dice.random() < 0.2,
        )

    def _derive(self, origin: str = "") -> None:
        dice = self._dice
        origin = origin or self._any()
        known = self._frames[origin]
        if known.depth >= DEPTH_MAX:
            self._act()
            return
        style = dice.choice(("api", "api", "sql", "view"))
        inputs: tuple[str, ...] = (origin,)
        pick = dice.random()
        columns = dict(known.columns)
        sources = known.sources
        if pick < 0.45:
            operation = self._where(columns)
        elif pick < 0.55:
            operation, columns = self._select(columns)
        elif pick < 0.64:
            operation, columns = self._group(columns)
        elif pick < 0.68 and "map" not in columns.values():
            operation = Operation(kind="distinct")
        elif pick < 0.72 and "map" not in columns.values():
            operation = Operation(kind="top", keys=tuple(columns), count=dice.randrange(0, 20))
        elif pick < 0.76:
            kind = dice.choice(("repartition", "coalesce", "python"))
            operation = Operation(kind=kind, count=dice.randrange(1, 4))
        else:
            # The same DataFrame twice is what most often goes wrong.
            other = origin if dice.random() < 0.4 else self._any()
            made = self._binary(known, self._frames[other])
            if made is None:
                return
            operation, columns = made
            inputs = (origin, other)
            sources |= self._frames[other].sources
        name = self._name("frame")
        self._steps.append(Derive(frame=name, inputs=inputs, operation=operation, style=style))
        self._keep(name, Known(columns, sources, known.depth + 1))
        if dice.random() < 0.6:
            self._steps.append(Act(frames=(name,), actions=(dice.choice(_ACTIONS),)))
        if dice.random() < 0.25:
            # What was made of it must not have changed the origin.
            self._steps.append(Act(frames=(origin,), actions=(dice.choice(_ACTIONS),)))

    def _where(self, columns: dict[str, str]) -> Operation:
        dice = self._dice
        if dice.random() < 0.03:
            return Operation(kind="never", text=("1 = 0",))
        text = self._condition(columns)
        if dice.random() < 0.3:
            text = f"({text}) {dice.choice(('AND', 'OR'))} ({self._condition(columns)})"
        if dice.random() < 0.1:
            text = f"NOT ({text})"
        return Operation(kind="where", text=(text,))

    def _condition(self, columns: dict[str, str]) -> str:
        dice = self._dice
        # Conditions on what names and orders messages are what a source could take over.
        likely = [one for one in columns if one in {"seq", "subject", "timestamp", "key"}]
        name = dice.choice(likely if likely and dice.random() < 0.6 else list(columns))
        number = dice.randrange(0, 40)
        match columns[name]:
            case "long" | "int":
                return dice.choice(
                    (
                        f"{name} <= {number}",
                        f"{name} > {number}",
                        f"{name} = {number}",
                        f"{name} <> {number}",
                        f"{name} BETWEEN {number} AND {number + 20}",
                        f"{name} % 3 = 1",
                        f"{name} IN ({number}, {number + 1}, 5)",
                    )
                )
            case "string":
                stream = STREAMS[0] if self._narrow else dice.choice(STREAMS)
                if name == "key":
                    return f"{name} {dice.choice(('=', '<>', '>'))} '{dice.choice(KEYS)}'"
                return dice.choice(
                    (
                        f"{name} = '{stream}.{dice.randrange(3)}'",
                        f"{name} IN ('{stream}.0', '{stream}.1.x', 'a', 'PUT')",
                        f"{name} LIKE '%.x'",
                        f"startswith({name}, '{stream}.')",
                        f"length({name}) > 6",
                        f"{name} <> '{stream}.1'",
                    )
                )
            case "binary":
                return dice.choice(
                    (f"length({name}) = 0", f"length({name}) > 2", f"{name} = X'73616D65'")
                )
            case "time":
                stream = STREAMS[0] if self._narrow else dice.choice(STREAMS)
                at = dice.randrange(1, self._last[stream] + 2)
                return f"{name} {dice.choice(('>=', '<', '='))} @micros({stream},{at})"
            case "map":
                header = dice.choice(HEADERS)
                return dice.choice((f"size({name}) = 0", f"map_contains_key({name}, '{header}')"))
            case _:
                return f"{name} IS {dice.choice(('', 'NOT '))}NULL"

    def _select(self, columns: dict[str, str]) -> tuple[Operation, dict[str, str]]:
        dice = self._dice
        chosen = dice.sample(list(columns), dice.randrange(1, len(columns) + 1))
        text, made = list(chosen), {name: columns[name] for name in chosen}
        new = self._name("c")
        name = dice.choice(list(columns))
        match columns[name]:
            case "long" | "int":
                text.append(f"CAST({name} * 2 AS BIGINT) AS {new}")
                made[new] = "long"
            case "string":
                text.append(f"upper({name}) AS {new}")
                made[new] = "string"
            case "binary":
                text.append(f"hex({name}) AS {new}")
                made[new] = "string"
            case "map":
                text.append(f"array_join(sort_array(map_keys({name})), '+') AS {new}")
                made[new] = "string"
            case _:
                pass
        return Operation(kind="select", text=tuple(text)), made

    def _group(self, columns: dict[str, str]) -> tuple[Operation, dict[str, str]]:
        dice = self._dice
        keys = [name for name, kind in columns.items() if kind in {"string", "int"}]
        keys = dice.sample(keys, min(len(keys), dice.randrange(0, 3)))
        made = {name: columns[name] for name in keys}
        new = self._name("n")
        text = [f"count(*) AS {new}"]
        made[new] = "long"
        for name, kind in columns.items():
            if kind == "long" and dice.random() < 0.5:
                new = self._name("n")
                word = dice.choice(("sum", "min", "max", "count(DISTINCT"))
                ending = "))" if word.startswith("count") else ")"
                word = word if word.startswith("count") else f"{word}("
                text.append(f"{word} {name}{ending} AS {new}".replace("))", ")"))
                made[new] = "long"
        return Operation(kind="group", text=tuple(text), keys=tuple(keys)), made

    def _binary(self, left: Known, right: Known) -> tuple[Operation, dict[str, str]] | None:
        dice = self._dice
        pairs = self._pairs(left.columns, right.columns)
        if not pairs:
            return None
        pick = dice.random()
        if pick < 0.35:
            kind = dice.choice(("union", "union", "intersect", "except"))
            if kind != "union":
                pairs = [pair for pair in pairs if left.columns[pair[0]] != "map"]
            if not pairs:
                return None
            text = tuple(one for one, _ in pairs)
            keys = tuple(f"{two} AS {one}" for one, two in pairs)
            made = {one: left.columns[one] for one, _ in pairs}
            return Operation(kind=kind, text=text, keys=keys), made
        narrow = [p for p in pairs if left.columns[p[0]] in {"long", "string", "int"}]
        if not narrow:
            return None
        one, two = dice.choice(narrow)
        if pick < 0.5:
            words = dice.choice(("IN", "NOT IN"))
            asked = (
                f"SELECT * FROM {{0}} WHERE {one} {words} "
                f"(SELECT {two} FROM {{1}} WHERE {two} IS NOT NULL)"
            )
            return Operation(kind="query", text=(asked,)), dict(left.columns)
        if pick < 0.6 and left.columns[one] == "long":
            asked = f"SELECT * FROM {{0}} WHERE {one} > (SELECT avg({two}) FROM {{1}})"
            return Operation(kind="query", text=(asked,)), dict(left.columns)
        how = dice.choice(("inner", "inner", "left", "full", "left_semi", "left_anti"))
        condition = f"l.{one} = r.{two}"
        # Few values match many rows: joined twice they would be thousands.
        if left.columns[one] == "string" and one not in {"key", "path"}:
            numbers = [p for p in narrow if left.columns[p[0]] == "long"]
            if not numbers:
                how = dice.choice(("left_semi", "left_anti"))
            else:
                condition += f" AND l.{numbers[0][0]} = r.{numbers[0][1]}"
        made = {}
        outputs = []
        for number, name in enumerate(left.columns):
            outputs.append(f"l.{name} AS l{number}")
            made[f"l{number}"] = left.columns[name]
        if how in {"inner", "left", "full"}:
            for number, name in enumerate(right.columns):
                outputs.append(f"r.{name} AS r{number}")
                made[f"r{number}"] = right.columns[name]
        return Operation(kind="join", text=(how, condition, *outputs)), made

    def _pairs(self, left: dict[str, str], right: dict[str, str]) -> list[tuple[str, str]]:
        """Columns of the same kind, each once; the same name first."""
        pairs: list[tuple[str, str]] = []
        free = dict(right)
        for name, kind in left.items():
            found = name if free.get(name) == kind else ""
            found = found or next((one for one, k in free.items() if k == kind), "")
            if found:
                del free[found]
                pairs.append((name, found))
        return pairs

    # What is done with them.

    def _act(self) -> None:
        dice = self._dice
        if dice.random() < 0.12:
            frames = tuple(self._any() for _ in range(dice.choice((2, 3))))
            actions = tuple(dice.choice(("collect", "count", "parquet")) for _ in frames)
            self._steps.append(Act(frames=frames, actions=actions))
            return
        actions = tuple(dice.choice(_ACTIONS) for _ in range(dice.choice((1, 1, 2))))
        self._steps.append(Act(frames=(self._any(),), actions=actions))

    def _persist(self) -> None:
        name = self._any()
        self._steps.append(Persist(frame=name, on=self._dice.random() < 0.7))
        self._steps.append(Act(frames=(name,), actions=("count", "collect")))

    def _checkpoint(self) -> None:
        origin = self._any()
        name = self._name("frame")
        reliable = self._dice.random() < 0.3
        self._steps.append(Checkpoint(frame=name, origin=origin, reliable=reliable))
        self._keep(name, Known(self._frames[origin].columns, frozenset(), DEPTH_MAX - 1))

    def _use(self) -> None:
        """Call one of the functions of ``jetspark.spark``."""
        dice = self._dice
        pick = dice.random()
        if pick < 0.25:
            bucket = dice.choice(tuple(BUCKETS))
            self._steps.append(
                Merge(
                    bucket=bucket,
                    seed=self._seed(),
                    matched=dice.choice(("update", "update", "delete", "ignore")),
                    not_matched=dice.choice(("insert", "insert", "ignore")),
                )
            )
            return
        if pick < 0.33:
            self._steps.append(Tables(prefix=dice.choice(("", "t_", "My-"))))
            return
        if pick < 0.4:
            self._steps.append(Schedule(flow=self._name("due"), count=dice.randrange(1, 8)))
            return
        frame = self._any()
        columns = self._frames[frame].columns
        numbers = [name for name, kind in columns.items() if kind == "long"]
        if pick < 0.6:
            rules = {f"rule{n}": self._condition(columns) for n in range(dice.randrange(1, 4))}
            self._steps.append(Expect(frame=frame, rules=rules))
        elif pick < 0.85 and (numbers or "key" in columns):
            listed = ", ".join(f"'{key}'" for key in (*KEYS, "none"))
            key = "key"
            if "key" not in columns or (dice.random() < 0.3 and numbers):
                key = f"element_at(array({listed}), CAST({dice.choice(numbers)} % 8 AS INT) + 1)"
            staleness = 0.0
            bucket = dice.choice(tuple(BUCKETS))
            self._steps.append(LookUp(frame=frame, bucket=bucket, key=key, staleness=staleness))
        elif numbers:
            self._steps.append(
                Route(
                    frame=frame,
                    number=dice.choice(numbers),
                    ttl=dice.random() < 0.4,
                    app=self._name("app"),
                )
            )
            self._wrote = True

    def _refresh(self) -> None:
        origin = self._any()
        name = self._name("frame")
        self._steps.append(Refresh(frame=name, origin=origin))
        self._steps.append(Act(frames=(name,), actions=("count",)))
        known = self._frames[origin]
        # What else was made of the same reads keeps the plan it was used with, or not.
        self._frames = {n: k for n, k in self._frames.items() if not k.sources & known.sources}
        self._keep(name, known)

    def _write(self) -> None:
        dice = self._dice
        origin = self._any()
        columns = self._frames[origin].columns
        numbers = [name for name, kind in columns.items() if kind == "long"]
        if not numbers:
            return
        number = f"coalesce(CAST({dice.choice(numbers)} AS STRING), 'none')"
        plain = [name for name, kind in columns.items() if kind in {"binary", "string"}]
        content = f"coalesce(hex({dice.choice(plain)}), '')" if plain else number
        if dice.random() < 0.7:
            options = {}
            if dice.random() < 0.4:
                options["publishMode"] = dice.choice(("async", "fast"))
            target = dice.choice((TARGET, *STREAMS))
            self._wrote = self._wrote or target == TARGET
            subject = f"concat('{target}.w.', {number}) AS subject"
            step = Write(
                frame=origin,
                format="jetstream",
                target=target,
                columns=(subject, f"{content} AS data"),
                options=options,
            )
        elif dice.random() < 0.7:
            step = Write(
                frame=origin,
                format="nats_kv",
                target=dice.choice(tuple(BUCKETS)),
                columns=(f"concat('w.', {number}) AS key", f"{content} AS value"),
            )
        else:
            step = Write(
                frame=origin,
                format="nats_object",
                target=STORE,
                columns=(f"concat('w', {number}) AS path", f"{content} AS content"),
            )
        self._steps.append(step)
        self._steps.append(Act(frames=(origin,), actions=("count",)))

    def _stream(self) -> None:
        """A streaming query, or one that continues."""
        dice = self._dice
        if self._flows and dice.random() < 0.45:
            flow = dice.choice(list(self._flows.values()))
            options = {}
            if dice.random() < 0.5:
                options["minPartitions"] = str(dice.choice((1, 2, 5)))
            if dice.random() < 0.5:
                options |= self._limits(flow.format)
            self._steps.append(Resume(flow=flow.flow, options=options))
            return
        name = self._name("flow")
        kv = dice.random() < 0.25
        several = self._functions and not kv and dice.random() < 0.35
        source = dice.choice(tuple(BUCKETS) if kv else STREAMS)
        options = {"startingOffsets": "earliest"}
        if kv:
            columns = {"key": "string", "value": "binary", "revision": "long"}
            if dice.random() < 0.3:
                options["keys"] = dice.choice(("c.*", "a"))
            if self._functions and dice.random() < 0.5:
                options["includePrevious"] = "true"
                columns["previous_value"] = "binary"
        elif several:
            columns = {"subject": "string", "seq": "long", "timestamp": "time", "data": "binary"}
            names = dice.sample(STREAMS, len(STREAMS))
            source = ",".join(names)
            options |= self._stream_options("*")
            options.pop("includeHeaders", None)
            if dice.random() < 0.4:
                starts = {one: dice.randrange(1, self._last[one] // 2 + 2) for one in names}
                options["startingOffsets"] = json.dumps(starts)
            elif dice.random() < 0.4:
                del options["startingOffsets"]
                times = {one: self._time(one) for one in names}
                options["startingOffsetsByTimestamp"] = json.dumps(times)
        else:
            columns = {"subject": "string", "seq": "long", "timestamp": "time", "data": "binary"}
            options |= self._stream_options(source)
            options.pop("includeHeaders", None)
            if dice.random() < 0.15:
                options["startingOffsets"] = "latest"
            elif dice.random() < 0.1:
                del options["startingOffsets"]
                options["startingTimestamp"] = self._time(source)
        if dice.random() < 0.6:
            options |= self._limits("nats_kv" if kv else "jetstream")
        if self._functions and not kv and dice.random() < 0.25:
            options["progressConsumer"] = name
        operations: list[Operation] = []
        if dice.random() < 0.6:
            operations.append(self._where(columns))
        flow = self._finish(name, "nats_kv" if kv else "jetstream", source, options, operations)
        flow = msgspec.structs.replace(
            flow,
            pattern=several and dice.random() < 0.4,
            watched=self._functions and dice.random() < 0.25,
        )
        self._steps.append(flow)
        if not flow.static:
            self._flows[name] = flow

    def _limits(self, kind: str) -> dict[str, str]:
        """Limits of a micro-batch: which rows it has changes, all rows together do not."""
        dice = self._dice
        limits: dict[str, str] = {}
        if dice.random() < 0.6:
            limits["maxOffsetsPerTrigger"] = str(dice.choice((15, 20, 500, 1000)))
        if self._functions and dice.random() < 0.4:
            limits["maxBytesPerTrigger"] = str(dice.choice((300, 2000, 10**6)))
        if self._functions and dice.random() < 0.3 and kind == "jetstream":
            limits["minOffsetsPerTrigger"] = str(dice.choice((2, 10, 15)))
            limits["maxTriggerDelay"] = dice.choice(("100ms", "1h"))
        return limits

    def _finish(
        self,
        name: str,
        kind: str,
        source: str,
        options: dict[str, str],
        operations: list[Operation],
    ) -> Flow:
        """Choose what a streaming query does with its rows, and where they go."""
        dice = self._dice
        number, text = ("revision", "key") if kind == "nats_kv" else ("seq", "subject")
        pick = dice.random()
        files = ("parquet", "foreach", *(("once",) if self._functions else ()))
        ending, sink, static = "append", dice.choice(files), ""
        keys: tuple[str, ...] = ()
        frozen = [one for one, known in self._frames.items() if "long" in known.columns.values()]
        if pick < 0.15:
            ending, keys = "distinct", (text,)
        elif pick < 0.3:
            ending, keys, sink = "count", (text,), dice.choice(("memory", "foreach"))
        elif pick < 0.4 and self._functions and "," not in source:
            # Of several streams, the order of their rows is not defined.
            sink = "merge"
            operations.append(
                Operation(
                    kind="select",
                    text=(f"CAST({number} % 5 AS STRING) AS key", f"{number} AS number"),
                )
            )
        elif pick < 0.5 and kind == "jetstream" and "," not in source:
            ending = "window"
        elif pick < 0.7 and frozen:
            ending, static = "static", dice.choice(frozen)
            other = next(n for n, k in self._frames[static].columns.items() if k == "long")
            how = dice.choice(("inner", "left"))
            columns = self._frames[static].columns
            outputs = [f"l.{number} AS l0", f"l.{text} AS l1"]
            outputs += [f"r.{one} AS r{at}" for at, one in enumerate(columns)]
            operations.append(
                Operation(kind="join", text=(how, f"l.{number} = r.{other}", *outputs))
            )
        elif pick < 0.8:
            ending = "twice"
            operations.append(Operation(kind="union", text=(number, text), keys=(number, text)))
        elif pick < 0.88 and self._functions:
            sink = "routed"
            stream = f"IF({number} % 2 = 0, '{TARGET}', '{OTHER}')"
            operations.append(
                Operation(
                    kind="select",
                    text=(
                        f"{stream} AS stream",
                        f"concat({stream}, '.{name}.', {number} % 7) AS subject",
                        f"hex({text}) AS data",
                    ),
                )
            )
        elif pick < 0.94:
            sink = "jetstream"
            operations.append(
                Operation(
                    kind="select",
                    text=(
                        f"concat('{TARGET}.{name}.', {number} % 7) AS subject",
                        f"hex({text}) AS data",
                    ),
                )
            )
        return Flow(
            flow=name,
            format=kind,
            source=source,
            options=options,
            operations=tuple(operations),
            ending=ending,
            keys=keys,
            static=static,
            sink=sink,
        )

    def _kind_of(self, load: Load, name: str) -> str:
        if name == "headers":
            return "binary" if load.options.get("includeHeaders") == "raw" else "map"
        return _KINDS.get(name, "string")

    def _time(self, source: str) -> str:
        return f"@time({source},{self._dice.randrange(1, self._last[source] + 2)})"

    def _any(self) -> str:
        # What was loaded is used again and again, directly and by what is made of it.
        loaded = [name for name, known in self._frames.items() if known.loaded]
        if loaded and self._dice.random() < 0.5:
            return self._dice.choice(loaded)
        return self._dice.choice(list(self._frames))

    def _keep(self, name: str, known: Known) -> None:
        self._frames[name] = known
        if len(self._frames) > FRAMES_MAX:
            del self._frames[next(iter(self._frames))]

    def _name(self, word: str) -> str:
        self._number += 1
        return f"{word}{self._number}"

    def _seed(self) -> int:
        return self._dice.randrange(1, 10**6)
