"""Runs that somebody edited with care: tables, documents and checkpoints changed, every checksum made right again."""

import hashlib
import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from wirelessdl.trace.checkpoint import Checkpoint, load_checkpoints, save_checkpoint


def sign(run):
    """Checksums of all files as they are now."""
    lines = []
    for path in sorted(run.rglob("*")):
        if path.is_file() and path.name != "checksums.txt" and path.name.isascii():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"{digest}  {path.relative_to(run).as_posix()}\n")
    (run / "checksums.txt").write_text("".join(lines))


# --- tables


def parts(name, change):
    """Every part of a table changed: Arrow table to Arrow table, rounds covered as they were."""

    def damage(run):
        for path in sorted((run / name).glob("part-*.parquet")):
            table = pq.ParquetFile(path).read()
            changed = change(table).replace_schema_metadata(table.schema.metadata)
            pq.write_table(changed, path, write_page_checksum=True)

    return damage


def column(table, name, values):
    """A table with another column."""
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))


def every(table_name, column_name, value):
    """A column with one value in every row."""
    return parts(table_name, lambda table: column(table, column_name, [value] * table.num_rows))


def first(table_name, column_name, value):
    """A column with another value in the first row of every part."""
    return parts(
        table_name,
        lambda table: column(table, column_name, [value, *table[column_name].to_pylist()[1:]] if len(table) else []),
    )


def all_null(table):
    return pa.table({field.name: pa.nulls(table.num_rows, field.type) for field in table.schema}, schema=table.schema)


def doubled(table):
    return pa.concat_tables([table, table])


# --- documents


def document(name, **values):
    """Keys of a JSON file; `...` removes one."""

    def damage(run):
        content = {**json.loads((run / name).read_text()), **values}
        content = {key: value for key, value in content.items() if value is not ...}
        (run / name).write_text(json.dumps(content))

    return damage


def scenario(key, value):
    """A key of the run's own scenario, such as `privacy.clip_norm`; a section by its name alone; `...` removes it."""

    def damage(run):
        table = tomllib.loads((run / "scenario.toml").read_text())
        *sections, last = key.split(".")
        place = table
        for name in sections:
            place = place[name]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        (run / "scenario.toml").write_text(tomli_w.dumps(table))

    return damage


# --- checkpoints


def facts(**values):
    """Facts of all checkpoints; `...` removes one."""

    def damage(run):
        for kept in list(load_checkpoints(run)):
            own = {key: value for key, value in kept.facts.items() if key not in ("schema", "round", "arrays")}
            changed = {key: value for key, value in {**own, **values}.items() if value is not ...}
            save_checkpoint(run, Checkpoint(kept.round, kept.arrays, changed))

    return damage


def arrays(name, change):
    """An array of all checkpoints."""

    def damage(run):
        for kept in list(load_checkpoints(run)):
            own = {key: value for key, value in kept.facts.items() if key not in ("schema", "round", "arrays")}
            changed = {**kept.arrays, name: np.ascontiguousarray(change(kept.arrays[name].copy()))}
            save_checkpoint(run, Checkpoint(kept.round, changed, own))

    return damage
