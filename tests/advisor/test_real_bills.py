"""Bills at real traffic: sleep, cold starts by bytes, the start limit of Spaces, the price beyond ZeroGPU's quota."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lib.advisor import Entry, recommend
from lib.advisor.recommend import right_size
from lib.catalog import load
from lib.cost import Usage, bill_offer
from lib.model.bundled import find_spec
from lib.present.sentences import sentence
from lib.request.types import AccountName
from lib.workload import Workload

CATALOG = load()
LLAMA, GLM, MINILM = "meta-llama/Llama-3.1-8B-Instruct", "zai-org/GLM-5", "sentence-transformers/all-MiniLM-L6-v2"


def pick(model: str, workload: Workload) -> Entry:
    """The hardware that is picked for a bundled model."""
    spec = find_spec(model)
    assert spec is not None
    found = recommend(spec, workload, CATALOG).pick
    assert found is not None
    return found


def say(entry: Entry, code: str) -> str:
    """The sentence of a reason, "" where it is not given."""
    return next((sentence(reason) for reason in entry.reasons if reason.code == code), "")


def test_an_endpoint_that_scales_to_zero_says_its_bill_and_its_wait() -> None:
    """20 requests a day wake an L4 some 15 times; 16 GB are fetched and loaded in about a minute and a half, beside two of the machine."""
    found = pick(LLAMA, Workload(platforms=("endpoints",), requests_per_day=20))
    assert found.cost.usd_per_month_asleep is not None
    assert 2 * found.cost.usd_per_month_asleep < found.cost.total_usd_per_month
    assert found.cost.cold_start_s == 120 + round(found.cost.file_bytes * (1 / 2e8 + 1 / 1.5e9))
    assert "It starts about 15.5 times a day, and the request that finds it asleep waits about 4 minutes" in say(found, "price_asleep")
    assert say(found, "start_limit") == ""


def test_a_space_that_cannot_start_in_time_is_said() -> None:
    """450 GB of GLM-5 in four bits take 45 minutes; an encoder of 90 MB takes seconds."""
    large = say(pick(GLM, Workload(platforms=("spaces",))), "start_limit")
    assert "a Space has 30 minutes to start: set startup_duration_timeout" in large
    small = pick(MINILM, Workload(platforms=("spaces",)))
    assert small.cost.cold_start_s < 125
    assert say(small, "start_limit") == ""


@pytest.mark.parametrize(("account", "pays"), [("free", False), ("pro", True)])
def test_the_price_beyond_the_quota_is_that_of_the_bill(account: AccountName, pays: bool) -> None:
    """PRO visitors buy GPU time beyond the quota, free ones wait for the next day."""
    found = pick(LLAMA, Workload(platforms=("zerogpu",), account=account))
    usage = Usage(account=account, requests_per_day=Decimal(100))
    bill = bill_offer(found.offer, usage, CATALOG.rules, speed=found.speed.predicted)
    assert bill.zerogpu is not None
    assert found.cost.usd_per_request_beyond_quota == bill.zerogpu.usd_per_request_beyond
    assert (found.cost.usd_per_request_beyond_quota is not None) == pays
    assert ("account pays about" in say(found, "zerogpu_beyond")) == pays


def test_a_paid_space_that_moves_to_zerogpu_is_told_what_changes() -> None:
    """Code and visitors: other decorators, a quota of their own, a queue. A move to a smaller card changes neither."""
    spec = find_spec(LLAMA)
    assert spec is not None
    current = CATALOG.resolve_offer("a100-large", "spaces")
    free, paid = (recommend(spec, Workload(platforms=where), CATALOG) for where in (("spaces", "zerogpu"), ("spaces",)))
    told = {reason.code: sentence(reason) for reason in right_size(current, free, free, CATALOG.rules).reasons}
    assert "@spaces.GPU with size=large" in told["move_changes_code"]
    assert "is refused after 60 s in that queue" in told["move_changes_visits"]
    assert not {"move_changes_code", "move_changes_visits"} & {one.code for one in right_size(current, paid, paid, CATALOG.rules).reasons}
