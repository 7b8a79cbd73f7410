"""Loss models of ns-3, live: `CalcRxPower` of every link, in ns-3's own code.

    { model = "ns3", loss = "ThreeGppUmiStreetCanyonPropagationLossModel", attributes = { ShadowingEnabled = false } }

`loss` is any TypeId of a PropagationLossModel, `channel_condition` one of a ChannelConditionModel (TR 37.885:
ProbabilisticV2vUrbanChannelConditionModel), without `ns3::`. Attributes are those of ns-3's documentation; `Frequency`
is channel.frequency_hz unless it is given. Losses are those of 0 dBm sent, gains 10^(-L / 20); models in
`channel.models` add as all losses do. ns-3 draws from streams of its own, with a seed from this run's: a resumed run
asks it the same questions in the same order, and so meets the same draws.

Scope and limitations: propagation losses only. ns-3's clock stays at zero, so a condition model with an UpdatePeriod
draws once. Losses are asked link by link; ns-3's draws need not be the same in both directions.
"""

import importlib.util
from typing import Any, TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.model import Composable
from wirelessdl.errors import nearest
from wirelessdl.links import Links
from wirelessdl.units import loss_db_to_gain

Attribute: TypeAlias = bool | int | float | str

_CODE = """
namespace wirelessdl {
using namespace ns3;
struct Losses {
  std::vector<Ptr<ConstantPositionMobilityModel>> nodes;
  Ptr<PropagationLossModel> loss;
  Ptr<Object> made;

  std::vector<std::string> known(const std::string& family) {
    std::vector<std::string> found;
    AlwaysLosChannelConditionModel::GetTypeId();  // these register when they are first used, as children of Object
    NeverLosChannelConditionModel::GetTypeId();
    NeverLosVehicleChannelConditionModel::GetTypeId();
    TypeId parent = TypeId::LookupByName("ns3::" + family);
    for (uint16_t i = 0; i < TypeId::GetRegisteredN(); i++) {
      TypeId one = TypeId::GetRegistered(i);
      std::string name = one.GetName().substr(5);
      bool named = name.size() > family.size() && name.substr(name.size() - family.size()) == family;
      if ((named || one.IsChildOf(parent)) && one.HasConstructor()) found.push_back(name);
    }
    return found;
  }
  void create(const std::string& type) {
    ObjectFactory factory("ns3::" + type);
    made = factory.Create();
  }
  std::string kind(const std::string& name) {
    TypeId::AttributeInformation info;
    bool found = made->GetInstanceTypeId().LookupAttributeByName(name, &info);
    return found ? info.checker->GetValueTypeName().substr(5) : "";
  }
  bool set(const std::string& name, const std::string& value) {
    return made->SetAttributeFailSafe(name, StringValue(value));
  }
  void use_loss() { loss = DynamicCast<PropagationLossModel>(made); }
  bool use_condition() {
    return loss->SetAttributeFailSafe("ChannelConditionModel", PointerValue(made));
  }
  void seed(uint32_t number) {
    RngSeedManager::SetSeed(number);
    RngSeedManager::SetRun(1);
    if (auto condition = DynamicCast<ChannelConditionModel>(made)) condition->AssignStreams(1000);
    loss->AssignStreams(0);
  }
  void losses(long count, const double* place, long n, const long* tx, const long* rx, double* loss_db) {
    while ((long)nodes.size() < count) {
      auto node = CreateObject<Node>();
      auto mobility = CreateObject<ConstantPositionMobilityModel>();
      node->AggregateObject(mobility);
      nodes.push_back(mobility);
    }
    for (long k = 0; k < count; k++)
      nodes[k]->SetPosition(Vector(place[3 * k], place[3 * k + 1], place[3 * k + 2]));
    for (long i = 0; i < n; i++) loss_db[i] = -loss->CalcRxPower(0.0, nodes[tx[i]], nodes[rx[i]]);
  }
};
}
"""
_FITS: dict[str, Any] = {"DoubleValue": int | float, "IntegerValue": int, "UintegerValue": int, "BooleanValue": bool}
_compiled: list[Any] = []  # ns-3's loader, once per process: it takes seconds


class Ns3(Composable):
    """A loss model of ns-3, computed by ns-3 during the run.

    loss, channel_condition: names of ns-3's types; attributes: of the loss model, by ns-3's names.
    """

    reciprocal = False

    def __init__(
        self,
        frequency_hz: float,
        loss: str,
        channel_condition: str | None = None,
        attributes: dict[str, Attribute] | None = None,
    ):
        self.frequency_hz, self.loss, self.channel_condition = frequency_hz, loss, channel_condition
        self.attributes = attributes or {}
        if importlib.util.find_spec("ns") is None:
            raise ValueError(
                f'loss is "{loss}"; ns3 needs a package that is not installed: pip install wirelessdl[ns3], or replay '
                "gains that ns-3 wrote (docs/from_ns3.md)"
            )
        self._live: Any = None
        self._seeded = False
        self._losses()  # mistakes are found when the scenario is

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        if not self._seeded:
            self._losses().seed(int(rng.integers(1, 2**31)))
            self._seeded = True
        return np.asarray(loss_db_to_gain(self.loss_db(links)))

    def loss_db(self, links: Links) -> FloatArray:
        """Path loss by ns-3, `[links]` dB."""
        place, found = np.ascontiguousarray(links.geometry.position_m, dtype=np.float64), np.zeros(len(links))
        tx, rx = (np.ascontiguousarray(ends, dtype=np.int64) for ends in (links.tx, links.rx))
        self._losses().losses(len(place), place.reshape(-1), len(links), tx, rx, found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Objects of ns-3 cannot be copied: a copy makes its own."""
        return {**vars(self), "_live": None, "_seeded": False}

    def _losses(self) -> Any:
        if self._live is None:
            live = _loader()()
            self._make(live, "PropagationLossModel", "loss", self.loss)
            attributes = {"Frequency": self.frequency_hz} if str(live.kind("Frequency")) else {}
            for name, value in {**attributes, **self.attributes}.items():
                kind = str(live.kind(name))
                if not kind:
                    raise ValueError(f"attributes.{name} is {value!r}; {self.loss} has no such attribute")
                # asked first: ns-3 ends the process where it cannot read a number
                text = str(value).lower() if isinstance(value, bool) else str(value)
                fits = isinstance(value, _FITS.get(kind, str)) and isinstance(value, bool) == (kind == "BooleanValue")
                if not fits or not live.set(name, text):
                    raise ValueError(f"attributes.{name} is {value!r}; {self.loss} takes a {kind} there")
            live.use_loss()
            if self.channel_condition is not None:
                self._make(live, "ChannelConditionModel", "channel_condition", self.channel_condition)
                if not live.use_condition():
                    raise ValueError(f'channel_condition is "{self.channel_condition}"; {self.loss} takes none')
            self._live = live
        return self._live

    @staticmethod
    def _make(live: Any, family: str, key: str, name: str) -> None:
        known = [str(one) for one in live.known(family)]
        if name not in known:
            raise ValueError(f'{key} is "{name}"; ns-3 has no such {family}{nearest(name, known)}')
        live.create(name)


def _loader() -> Any:
    if not _compiled:
        try:
            import cppyy
            from ns import ns  # noqa: F401  (loads ns-3's libraries)
        except Exception as error:  # of the linker, whatever it finds
            raise ValueError(f"loss needs ns-3, which cannot be loaded: {' '.join(str(error).split())[:200]}") from None
        cppyy.cppdef(_CODE)
        _compiled.append(cppyy.gbl.wirelessdl.Losses)
    return _compiled[0]
