"""From text to hardware.

A text is read in this order: silicon in its own spelling (`L4`, `L4x4`, `H100-SXMx8`); an offer by id or name, any case (`l4x1`, `L4X1`,
`l4`); silicon in another case (`h100-sxm`); plain words (`2x RTX 3090`, `DGX Spark`, `RTX PRO 6000`), of which the answer says what they
were taken for; an offer that was withdrawn (refused, with its dates); else refused, with near matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from lib.catalog.offers import Hardware, Offer, UnpricedHardware, own_hardware
from lib.catalog.silicon import OWNED_KINDS, Accelerator
from lib.errors import UnknownHardware, quote_value
from lib.platforms import PLATFORMS, Platform
from lib.request.words import find_meaning, note_reading
from lib.units import GIB

LONGEST = 80
MOST_CARDS = 16384  # the largest TPU pod has 9216 chips
_COUNTED = re.compile(r"(?P<id>.+)[xX×*](?P<count>[0-9]{1,5})", re.DOTALL)
_COUNT_FIRST = re.compile(r"([0-9]{1,3}(?=\s*[x×*])|[0-9]{1,5}(?=\s*[x×*]\s)|[0-9]{1,2}(?=\s))\s*(?:[x×*]\s*)?(?P<name>\S.*)")
_COUNT_LAST = re.compile(r"(?P<name>.*\S)\s*[x×*]\s*([0-9]{1,5})")
_FILLERS = frozenset(
    {"gpu", "gpus", "card", "cards", "nvidia", "geforce", "amd", "intel", "radeon", "instinct", "apple", "tesla", "quadro", "tpu"}
)
_SERIES = ("rtx", "rx", "radeon", "radeonpro", "arc", "arcpro", "tpu")
_MAC = re.compile(r"\bmac ?(?:book|studio|mini)?(?: (?:pro|air))?\b")
_GB = re.compile(r"[0-9]{1,4}gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that can be looked up."""

    by_id: Mapping[tuple[str, str], Offer]
    """Offers by platform and id."""
    by_platform: Mapping[str, tuple[Offer, ...]]
    """Offers by platform, in the order of `PLATFORMS`."""
    by_name: Mapping[str | None, Mapping[str, tuple[Offer, ...]]]
    """Offers by platform (None: of all), then by id or alias in lower case."""
    silicon: Mapping[str, Accelerator]
    """By id."""
    silicon_folded: Mapping[str, Accelerator]
    """By id in lower case, without hyphens and blanks."""
    unpriced: Mapping[str, tuple[UnpricedHardware, ...]]
    """Announced without a price, by platform."""

    def advice(self, text: str, platform: str | None = None) -> str:
        """A sentence that names the name that was probably meant, or the list; begins with a space."""
        names = [name for name, rows in self.by_name[platform].items() if any(row.listed for row in rows)]
        names += [] if platform else list(self.silicon_folded)
        near = get_close_matches(text.casefold()[:LONGEST], names, n=3, cutoff=0.6)
        near = near or get_close_matches(_read_plain(text[:LONGEST]).name, names, n=3, cutoff=0.6)
        offers = self.by_name[None]
        ids = [offers[name][0].id if name in offers else self.silicon_folded[name].id for name in near]
        near_text = ", ".join(f"'{key}'" for key in dict.fromkeys(ids))
        listing = " /list_hardware lists every id."
        return f" Near matches: {near_text}.{listing}" if near_text else listing

    def unknown(self, text: object, platform: str | None = None) -> str:
        """The sentence for a name that no hardware has."""
        where = f" on {platform}" if platform else ""
        advice = self.advice(text, platform) if isinstance(text, str) else " It has to be text, such as 'l4x1'."
        elsewhere = "" if not isinstance(text, str) else self._elsewhere(text, platform) if platform else self._announced(text)
        return f"There is no hardware called {quote_value(text)}{where}.{elsewhere}{advice}"

    def _announced(self, text: str) -> str:
        """The announcement without a price of the hardware that an id names in a platform's own form ("aws-nvidia-rtx-pro-6000-x1")."""
        vendor, folded = text.casefold().partition("-")[0], _fold_name(text)
        rows = (row for platform, rows in self.unpriced.items() if self._begins_ids(platform, vendor) for row in rows)
        return "".join(f" {row.sentence}" for row in rows if _fold_name(row.name) in folded)

    def _begins_ids(self, platform: str, word: str) -> bool:
        """Whether ids of this platform begin with this word."""
        return any(row.id.partition("-")[0] == word for row in self.by_platform[platform])

    def _elsewhere(self, text: str, platform: str) -> str:
        """The announcement of this hardware without a price, its offers on other platforms, and the cheapest here with its memory.

        Begins with a space; empty if nothing is known.
        """
        names = {text.casefold(), "-".join(text.casefold().split())}
        here = self.by_platform[platform]
        rows = [row for name in sorted(names) for row in self.by_name[None].get(name, ()) if row.listed and row not in here]
        listed = ", ".join(dict.fromkeys(f"'{row.platform}:{row.id}'{_price_words(row)}" for row in rows))
        said = [f"Other platforms have it: {listed}."] if listed else []
        plain = _read_plain(text)
        card = next((row.silicon for row in rows if row.silicon is not None), None) or _plain_card(self, plain)
        if card is not None:
            count = rows[0].accelerator_count if rows else plain.count or 1
            said[:0] = [row.sentence for row in self.unpriced.get(platform, ()) if card.id in row.accelerators]
            alike = (row for row in here if row.listed and row.processor.kind == card.kind)
            each = ((row, row.vram_bytes_per_accelerator or 0) for row in alike)
            memory = card.memory_usable or 0
            able = [row for row, size in each if size >= memory and size * row.accelerator_count >= memory * count]
            nearest = min(able, key=lambda row: (row.usd_per_hour or 0, row.accelerator_count), default=None)
            said += [f"Cheapest on {platform} with its memory: '{nearest.id}'{_price_words(nearest)}."] if nearest else []
        return "".join(f" {sentence}" for sentence in said)


def _price_words(row: Offer) -> str:
    """The price of an offer in brackets, after a space."""
    return "" if row.usd_per_hour is None else f" ({row.usd_per_hour} USD per hour)"


def index_names(
    offers: Iterable[Offer],
    aliases: Mapping[str, Mapping[str, str]],
    accelerators: Mapping[str, Accelerator],
    unpriced: tuple[UnpricedHardware, ...] = (),
) -> Names:
    """Everything that can be looked up. Ids win over aliases; platforms rank in the order of `PLATFORMS`."""
    by_id: dict[tuple[str, str], Offer] = {(row.platform, row.id): row for row in offers}
    named: list[tuple[str, Offer]] = []
    ranked = sorted(by_id.values(), key=lambda row: (row.status == "retired", PLATFORMS.index(row.platform)))
    named += [(row.id, row) for row in ranked]
    for row in ranked:
        if row.endpoint:
            for region in row.endpoint.regions:
                kind = f"{row.endpoint.vendor}-{region}-{row.endpoint.instance_type}-{row.endpoint.instance_size}"
                named.append((kind, row))
    for platform in PLATFORMS:
        named += [(alias, by_id[platform, target]) for alias, target in aliases.get(platform, {}).items()]
    by_platform: dict[str, list[Offer]] = {platform: [] for platform in PLATFORMS}
    for row in by_id.values():
        by_platform[row.platform].append(row)
    by_name: dict[str | None, dict[str, tuple[Offer, ...]]] = {platform: {} for platform in (None, *PLATFORMS)}
    for name, row in named:
        for rows in (by_name[None], by_name[row.platform]):
            rows[name.casefold()] = (*rows.get(name.casefold(), ()), row)
    announced: dict[str, tuple[UnpricedHardware, ...]] = {}
    for hardware in unpriced:
        announced[hardware.platform] = (*announced.get(hardware.platform, ()), hardware)
    return Names(
        by_id=by_id,
        by_platform={platform: tuple(rows) for platform, rows in by_platform.items()},
        by_name=by_name,
        silicon=accelerators,
        silicon_folded={_fold_name(key): card for key, card in accelerators.items()},
        unpriced=announced,
    )


def _fold_name(name: str) -> str:
    """A name of silicon as people write it: "RTX 4070 Ti", "Apple M4 Max 64GB" and "nvidia h100-sxm" are cards of the catalog."""
    text = name.casefold()
    for maker in ("nvidia ", "geforce ", "amd ", "instinct ", "apple "):
        text = text.removeprefix(maker)
    return text.replace("-", "").replace(" ", "")


def _withdrawn_sentence(row: Offer) -> str:
    """The sentence for an offer of the past."""
    since = f" on {row.since}" if row.since and row.since.count("-") > 1 else f" in {row.since}" if row.since else ""
    cost = f" Its last price was {row.last_usd_per_hour} USD per hour." if row.last_usd_per_hour is not None else ""
    instead = f" Closest today: '{row.successor}'." if row.successor else ""
    return f"'{row.id}' ({row.name}) is no longer offered: it left {row.platform}{since}.{cost}{instead} /list_hardware lists every id."


@dataclass(frozen=True, slots=True)
class _PlainName:
    """A text such as "2x RTX 3090 24GB": a count, a name without separators and makers ("" for "4 GPUs"), a memory in GB."""

    count: int | None
    name: str
    memory: str


def _read_plain(text: str) -> _PlainName:
    """The count and the name in a text."""
    words = re.sub(r"([0-9]) gb\b", r"\1gb", _MAC.sub(" ", text.casefold()).strip())
    first, last = _COUNT_FIRST.fullmatch(words), _COUNT_LAST.fullmatch(words)
    count, name = (first[1], first["name"]) if first else (last[2], last["name"]) if last else (None, words)
    kept = [word for word in re.split(r"[\s\-_/(),+]+", name) if word and word not in _FILLERS]
    memory = next((word for word in kept if _GB.fullmatch(word)), "")
    return _PlainName(None if count is None else int(count), "".join(word for word in kept if word != memory), memory)


def _plain_card(names: Names, plain: _PlainName) -> Accelerator | None:
    """The card or the Mac of a plain name; where it leaves the memory open, the one with the least."""
    known, found = names.silicon_folded, find_meaning("hardware", plain.name + plain.memory) or find_meaning("hardware", plain.name)
    cards = [] if found is None else [names.silicon[found]]
    for name in (plain.name, *(f"{series}{plain.name}" for series in _SERIES), f"{plain.name}blackwell"):
        cards += [card for key, card in known.items() if key == name or (key.startswith(name) and _GB.fullmatch(key.removeprefix(name)))]
    of_size = [card for card in cards if not plain.memory or card.memory_advertised == int(plain.memory.removesuffix("gb")) * GIB]
    if found is not None and of_size[:1] == cards[:1]:
        return cards[0]
    return min(of_size, key=lambda card: card.memory_usable or 0, default=None)


def _from_words(names: Names, text: str, platform: Platform | None, argument: str) -> Hardware | None:
    """The offer of today, else the silicon, that plain words mean; None if they mean nothing known.

    An `own_hardware` is silicon.
    """
    plain = _read_plain(text)
    if plain.count and not plain.name:
        raise UnknownHardware(f"{quote_value(text)} is a number without a card. Name both, such as '4x L4' or 'RTX-3090x4'.")
    if not plain.name:
        return None
    count = 1 if plain.count is None else plain.count
    if not 1 <= count <= MOST_CARDS:
        raise UnknownHardware(f"{quote_value(text)} asks for {count} cards. Accepted: 1 to {MOST_CARDS}.")
    wanted = plain.name + plain.memory
    wanted = wanted if count == 1 else f"{wanted}x{count}"
    found: Hardware | None = None
    if argument == "hardware":
        alike = (rows for name, rows in names.by_name[platform].items() if _fold_name(name) == wanted)
        offers = [row for rows in alike for row in rows if row.listed]
        found = min(offers, key=lambda row: PLATFORMS.index(row.platform), default=None)
    if found is None and platform is None:
        card = _plain_card(names, plain)
        found = None if card is None else _silicon(names, card.id if plain.count is None else f"{card.id}x{count}")
    if found is not None:
        note_reading(argument, text, f"{found.id} ({found.name})")
    return found


def _first_offer(names: Names, text: str, platform: Platform | None) -> Offer | None:
    """The offer of this name; today's before a retired one."""
    return next(iter(names.by_name[platform].get(text.casefold(), ())), None)


def _silicon(names: Names, text: str) -> Hardware | None:
    """Plain silicon, with or without a count."""
    card = names.silicon.get(text) or names.silicon_folded.get(_fold_name(text))
    if card is not None:
        return own_hardware(card)
    match = _COUNTED.fullmatch(text)
    card = match and (names.silicon.get(match["id"]) or names.silicon_folded.get(_fold_name(match["id"])))
    if match is None or card is None:
        return None
    count = int(match["count"])
    if card.kind in {"cpu", "apple"} and count != 1:
        what = "A CPU is one host" if card.kind == "cpu" else "A Mac is one machine"
        raise UnknownHardware(f"{quote_value(text)} asks for {count} hosts of {card.name}. {what}: write '{card.id}'.")
    if not 1 <= count <= MOST_CARDS:
        raise UnknownHardware(f"{quote_value(text)} asks for {count} cards. Accepted: 1 to {MOST_CARDS}, such as '{card.id}x8'.")
    return own_hardware(card, count)


def _read_name(names: Names, text: object, platform: Platform | None) -> tuple[str, Platform | None]:
    """The name without blanks at its ends, and the platform: as asked, else the one before a colon. Refuses texts that cannot be a name."""
    if not isinstance(text, str):
        raise UnknownHardware(names.unknown(text, platform))
    name = text.strip()
    before, colon, behind = name.partition(":")
    if colon and (of := before.strip().casefold()) in PLATFORMS and platform in {None, of}:
        name, platform = behind.strip(), of
    if not name:
        raise UnknownHardware("The hardware is empty. Accepted: an id such as 'l4x1', or silicon such as 'H100-SXMx8'.")
    if len(name) > LONGEST:
        raise UnknownHardware(f"The hardware {quote_value(name)} has {len(name)} characters; no id has more than {LONGEST}.")
    return name, platform


def find_offer(names: Names, text: object, platform: Platform | None) -> Offer:
    """The offer of today that this text means; `jobs:l4x1` picks the platform of an id that several have."""
    name, platform = _read_name(names, text, platform)
    row = _first_offer(names, name, platform)
    if row is None and _silicon(names, name) is None:
        found = _from_words(names, name, platform, "hardware")
        if isinstance(found, Offer):
            return found
        if found is not None:
            raise UnknownHardware(f"{quote_value(name)} means {found.name}, which nobody here rents out.{names.advice(name, platform)}")
    if row is None and _silicon(names, name) is not None:
        raise UnknownHardware(f"{quote_value(name)} is plain silicon, without a price.{names.advice(name, platform)}")
    if row is None:
        raise UnknownHardware(names.unknown(name, platform))
    if row.status == "retired":
        raise UnknownHardware(_withdrawn_sentence(row))
    return row


_BETWEEN_KINDS = re.compile(r"\s*(?:[+,;&/]|\band\b|\bplus\b)\s*", re.IGNORECASE)


def _refuse_mixed(names: Names, argument: str, text: str) -> None:
    """Refuse cards of several kinds by their names, if each part of the text names a card."""
    plain = [_read_plain(part) for part in _BETWEEN_KINDS.split(text) if part]
    cards = [_plain_card(names, part) if part.name else None for part in plain]
    kinds = [card for card in cards if card is not None]
    if len(kinds) == len(cards) and len({card.id for card in kinds}) > 1:
        named = " and ".join(dict.fromkeys(card.name for card in kinds))
        raise UnknownHardware(
            f"{argument} was {quote_value(text)}, cards of mixed kinds ({named}). Accepted: one kind with a count, "
            f"such as '{kinds[0].id}x2'. For a mixed machine ask once for each kind: engines that split every layer run at the pace of "
            "the slowest card."
        )


def find_cards(names: Names, text: object) -> Hardware:
    """The cards or the Mac of the visitor's own that this text means: `RTX-4090x2`, `M4-Max-64GB`."""
    accepted = "Accepted: graphics cards or a Mac of your own, such as 'RTX-4090x2' or 'M4-Max-64GB'."
    if not isinstance(text, str) or not 0 < len(text.strip()) <= LONGEST:
        raise UnknownHardware(f"own_hardware was {quote_value(text)}. {accepted}")
    own = _silicon(names, text.strip()) or _from_words(names, text.strip(), None, "own_hardware")
    if own is None:
        _refuse_mixed(names, "own_hardware", text.strip())
        owned = {name: card.id for name, card in names.silicon_folded.items() if card.kind in OWNED_KINDS}
        near = ", ".join(f"'{owned[name]}'" for name in get_close_matches(_fold_name(text), owned, n=3, cutoff=0.6))
        meant = f" Near matches: {near}." if near else ""
        raise UnknownHardware(f"own_hardware was {quote_value(text)}, which is none that is known here.{meant} {accepted}")
    if own.processor.kind not in OWNED_KINDS:
        raise UnknownHardware(f"own_hardware was {quote_value(text)}, which is not a graphics card or a Mac. {accepted}")
    return own


def find_hardware(names: Names, text: object, platform: Platform | None) -> Hardware:
    """The offer or the plain silicon that this text means; silicon belongs to no platform."""
    name, platform = _read_name(names, text, platform)
    if platform is not None:
        return find_offer(names, name, platform)
    base, _, count = name.rpartition("x")
    if name in names.silicon or (base in names.silicon and count.isdigit()):
        cards = _silicon(names, name)
        if cards is not None:
            return cards
    row = _first_offer(names, name, None)
    if row is not None and row.status != "retired":
        return row
    cards = _silicon(names, name)
    if cards is None and (row is None or name != row.id):
        cards = _from_words(names, name, None, "hardware")
    if cards is not None:
        return cards
    if row is None:
        _refuse_mixed(names, "hardware", name)
    raise UnknownHardware(_withdrawn_sentence(row) if row is not None else names.unknown(name, None))
