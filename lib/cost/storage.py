"""Storage on the bill: today's prices, and the persistent tiers of the past as what they are, gone."""

from __future__ import annotations

from decimal import Decimal

from lib.cost.result import CostPart
from lib.cost.usage import Usage
from lib.laws.cost.storage import GB_PER_TB, storage
from lib.platform_rules import RetiredStorageTier, StoragePrices
from lib.provenance import Caveat
from lib.units import GB

LAW = "Σ USD/TB/month · TB beyond what the account includes"


def storage_part(usage: Usage, prices: StoragePrices) -> CostPart | None:
    """The line for storage; `None` when nothing is stored."""
    if usage.storage_gb <= 0:
        return None
    public = usage.storage_public
    base, rates = (
        (prices.public_usd_per_tb_month, prices.public_volume_rates)
        if public
        else (prices.private_usd_per_tb_month, prices.private_volume_rates)
    )
    included = Decimal(0) if public else included_gb(usage, prices)
    amount = storage(gigabytes=usage.storage_gb, included_gigabytes=included, usd_per_tb_month=base, volume_rates=rates)
    return CostPart(
        name="public storage" if public else "private storage",
        kind="storage",
        usd_per_month=amount,
        law=LAW,
        inputs={"held": f"{usage.storage_gb} GB", "included": f"{included} GB", "price": f"{base} USD/TB/month"},
        source=prices.sources[0].source,
    )


def included_gb(usage: Usage, prices: StoragePrices) -> Decimal:
    """Private gigabytes in the plan: per seat for organizations; nothing without an account."""
    seats = usage.seats if usage.account in {"team", "enterprise"} else 1
    return Decimal(prices.included_private.get(usage.account, 0)) / GB * seats


def storage_caveats(usage: Usage, prices: StoragePrices, platform: str) -> list[Caveat]:
    """What the line for storage leaves open, and which old tier it may have been meant as."""
    found: list[Caveat] = []
    if usage.storage_gb <= 0:
        return found
    tier = retired_tier(usage.storage_gb, prices)
    if tier is not None:
        found.append(today(tier, usage, prices))
    if platform == "tpu":
        found.append(Caveat(code="storage_elsewhere", message="Storage is priced as on the Hub; Google Cloud bills its own disks besides."))
    rates = prices.public_volume_rates if usage.storage_public else prices.private_volume_rates
    if rates and usage.storage_gb > rates[0][0] * GB_PER_TB:
        message = f"From {rates[0][0]} TB on the lower rate is taken for what lies above; if it covers everything, it costs less."
        found.append(Caveat(code="volume_rate", message=message))
    return found


def retired_tier(asked: Decimal | str, prices: StoragePrices) -> RetiredStorageTier | None:
    """The old persistent tier that is meant by a name (`small`, `medium`, `large`) or by exactly its size in GB."""
    for tier in prices.retired_tiers:
        if asked == tier.id if isinstance(asked, str) else asked * GB == tier.size:
            return tier
    return None


def today(tier: RetiredStorageTier, usage: Usage, prices: StoragePrices) -> Caveat:
    """What became of a tier, and what its size costs now."""
    size = Decimal(tier.size) / GB
    base = prices.private_usd_per_tb_month
    included = included_gb(usage, prices)
    amount = storage(gigabytes=size, included_gigabytes=included, usd_per_tb_month=base, volume_rates=prices.private_volume_rates)
    return Caveat(
        code="storage_tier_retired",
        message=(
            f"The persistent-storage tier '{tier.id}' ({size:f} GB for {tier.last_usd_per_month} USD/month) is gone since {tier.until}. "
            f"Today a bucket holds the same: {amount.normalize():f} USD/month for private data on this account, "
            f"of which {included:f} GB are included, then {base} USD/TB/month."
        ),
    )
