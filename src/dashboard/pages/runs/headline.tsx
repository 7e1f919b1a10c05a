import { NONE } from "../../data/format.ts";
import type { TrainingJob } from "./types.ts";
import { headlineText, headlineTitle } from "./words.ts";

/** The figure that shows how a run goes, with its name and the direction of better values. */
export const Headline = ({ metric }: { metric: TrainingJob["headline_metric"] }) =>
  metric ? (
    <span class="n" title={headlineTitle(metric)}>
      {headlineText(metric)}
    </span>
  ) : (
    <span class="muted">{NONE}</span>
  );
