"""The requirements that hardware is judged by: from a model, a workload and the catalog to one `JudgeContext`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lib.advisor.candidates import family_of, task_of
from lib.advisor.fit import HostedModel, JudgeContext
from lib.advisor.speed import shape_request
from lib.catalog import Catalog
from lib.catalog.rows import ById
from lib.catalog.silicon import Accelerator
from lib.errors import BadArgument
from lib.memory.resolve import limit_context, limit_length
from lib.memory.result import stored_bytes
from lib.model.spec import ModelSpec
from lib.request.serving import check_settings
from lib.request.types import AUTO
from lib.workload import Workload


def make_context(spec: ModelSpec | None, workload: Workload, catalog: Catalog, published: Mapping[str, str] | None = None) -> JudgeContext:
    """The context of one question; `published` names the quantized checkpoints that the Hub lists, None if it was not asked.

    Raises:
        BadArgument: an unknown task, neither a model nor a task that needs none, or a stated request beyond the model's limit.
    """
    family = family_of(task_of(workload.task, spec))
    if workload.engine != AUTO:
        check_settings(workload.engine, workload.serving)
    hosted = None if family == "provider" else spec
    context_tokens = _context(spec, workload)
    model = None
    if hosted is not None:
        model = HostedModel(spec=hosted, stored_bytes=stored_bytes(hosted), published=published)
    return JudgeContext(
        model=model,
        family=family,
        workload=workload,
        context_tokens=context_tokens,
        speed_request=shape_request(family, context_tokens, workload),
        rules=catalog.rules,
        cpus=_list_cpus(ById(catalog)),
        accelerators=catalog.accelerators,
    )


@lru_cache(maxsize=4)
def _list_cpus(catalog: ById[Catalog]) -> tuple[Accelerator, ...]:
    """Processors of rented hosts, the smallest first."""
    cpus = {offer.host_cpu.id: offer.host_cpu for offer in catalog.value.offers if offer.host_cpu is not None}
    return tuple(sorted(cpus.values(), key=lambda cpu: (cpu.vcpu or 0, cpu.id)))


def _context(spec: ModelSpec | None, workload: Workload) -> int:
    """The context to hold: the requested one, at least the stated request, but no more than the model can use (`limit_context`).

    A server with a stated `max_model_len` holds one request of that length.
    """
    stated = workload.prompt_tokens + workload.output_tokens
    limit = None if spec is None else spec.context_limit
    if limit is not None and stated > limit:
        name = "prompt_tokens" if workload.prompt_tokens >= workload.output_tokens else "output_tokens"
        of = "" if spec is None else spec.id or "this model"
        raise BadArgument(name, f"{stated:,} tokens of prompt and answer", f"at most {limit:,} together, the limit of {of}")
    context_tokens = max(workload.context_tokens, stated)
    if spec is None:
        return context_tokens
    context_tokens = limit_context(spec, context_tokens)[0]
    limit_length(spec, workload.serving, context_tokens, workload.concurrency)
    return max(context_tokens, workload.serving.max_model_len or 0)
