"""What the sections of a scenario share."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

# bounds keep products and powers of any two of them within what a float can hold
Positive = Annotated[FiniteFloat, Field(gt=0, ge=1e-18, le=1e18)]
Fraction = Annotated[FiniteFloat, Field(ge=1e-30, lt=1)]
Count = Annotated[int, Field(ge=1)]
Battery = Annotated[float, Field(gt=0)]


def rule_text(text: str) -> dict[str, Any]:
    """A remedy to print instead of pydantic's words."""
    return {"rule": text}


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
