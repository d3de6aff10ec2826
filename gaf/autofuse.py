# SPDX-License-Identifier: Apache-2.0
"""`Autofuse`: looks for fusion opportunities in a model without generating code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gaf.config import FusionConfig
from gaf.dialects.graph.model import Model
from gaf.fusion.candidates import Candidate
from gaf.fusion.cost import CostModel
from gaf.fusion.search import FusionPlan, plan_fusion
from gaf.passes.graph.footprint import smallest_tile
from gaf.passes.pipeline import graph_pipeline, run_pipeline


class Autofuse:
    """Finds candidates with a cost model and the options of a FusionConfig.

    `symbols` gives the sizes at which symbolic dims are priced. After a call `plan` holds everything that the
    search decided, `rejected` the groups that were looked at and left apart.
    """

    def __init__(
        self,
        cost_model: CostModel | None = None,
        config: FusionConfig | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        config = config or FusionConfig()
        if cost_model is not None:
            config = replace(config, cost_model=cost_model)
            if "target" in vars(cost_model) and config.target == FusionConfig.target:
                config = replace(config, target=cost_model.target.name)
        if symbols is not None:
            config = replace(config, symbols=symbols)
        self.config = config
        self.plan: FusionPlan | None = None

    @property
    def cost_model(self) -> CostModel | None:
        return self.config.cost_model if isinstance(self.config.cost_model, CostModel) else None

    @property
    def rejected(self) -> list[Candidate]:
        """Groups of the last call that were priced and left apart, with the reason in `why`."""
        return [c for c in self.plan.candidates if not c.fused] if self.plan is not None else []

    def find_fusion_opportunities(self, graph: Any) -> list[Candidate]:
        """Groups that fusion would make kernels of, best gain first.

        `graph` is a Model or anything that `gaf.load_model` opens; it isn't changed. Raises GafError
        subclasses.
        """
        if not isinstance(graph, Model):
            from gaf.frontend.load import load_model

            graph = load_model(graph)
        work = graph.clone()
        run_pipeline(work.module, graph_pipeline(
            self.config.enable_autofuse, self.config.strict, self.config.disabled_rules
        ))
        self.plan = plan_fusion(work.block, config=self.config, planner=smallest_tile)
        return [c for c in self.plan.candidates if c.fused]
