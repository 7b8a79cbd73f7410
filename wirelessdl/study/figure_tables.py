"""What a study file may say beyond its cells: protocols, scales, figures. `wirelessdl reproduce` reads it.

[study.protocols.hardened.set]
"privacy.protocol" = "hardened"
[study.scales.smoke]
seeds = 1
set = { "scenario.rounds" = 20 }
[[study.figures]]
name = "claim"
x = "epsilon_link_total"
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from wirelessdl.scenario.section import Count, Section, rule_text

SCALES = ("smoke", "cpu", "paper")
NAME = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,39}$"
NAME_RULE = rule_text("must be at most 40 letters, digits, '_' or '-': it ends a file's name")
_Values = Annotated[list[Any], Field(min_length=1)]


class VariantTable(Section):
    """Changes to a study: overrides of all its cells, other values for keys of its grid, another number of seeds."""

    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, _Values] = Field(default_factory=dict)
    seeds: Count | None = None
    only: Annotated[list[str], Field(min_length=1)] | None = None  # names of cells that stay


class FigureTable(Section):
    """A figure of the study, with the options of `wirelessdl plot` by name."""

    name: str = Field(pattern=NAME, json_schema_extra=NAME_RULE)
    kind: Literal["plot", "regret", "minima", "leakage"] = "plot"  # others: of a theorem, without further options
    x: str | None = None
    y: str = "accuracy"
    series: str | None = None
    style: str | None = None
    facet: str | None = None
    where: list[str] = Field(default_factory=list)
    curves: Literal["round", "time", "energy", "airtime", "epsilon"] | None = None
    logx: bool = False
    labels: list[str] = Field(default_factory=list)
    size: Literal["single", "double"] = "double"
    protocols: list[str] | None = None  # of which it is drawn; all by default

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.curves is not None and self.x is not None:
            raise ValueError(f'has curves = "{self.curves}" and x; curves are drawn over what curves says: keep one')
        options = sorted(self.model_fields_set - {"name", "kind", "protocols"})
        if self.kind != "plot" and options:
            raise ValueError(f'has kind = "{self.kind}", which takes no {options[0]}; leave it out')
        return self
