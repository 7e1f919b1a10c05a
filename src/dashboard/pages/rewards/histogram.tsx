import { number } from "../../data/format.ts";
import type { Histogram as Data } from "./compare.ts";

/** Two histograms over the same bins: the run's rewards behind, those of the code in front. */
export function Histogram({ of: { edges, old, now } }: { of: Data }) {
  const most = Math.max(1, ...old, ...now);
  const [low, high] = [edges[0], edges.at(-1)];
  const share = (n: number | undefined) => `${((n ?? 0) / most) * 100}%`;
  if (edges.length === 0) return <p class="muted">No sample has a reward.</p>;
  return (
    <figure class="rewards-histogram">
      <figcaption class="legend">
        <span>
          <i class="old" />
          Run
        </span>
        <span>
          <i class="now" />
          This code
        </span>
      </figcaption>
      <div class="bars">
        {old.map((n, i) => {
          const range = `${number(edges[i])} to ${number(edges[i + 1])}`;
          return (
            <div key={range} title={`${range}: run ${n}, this code ${now[i] ?? 0}`}>
              <i class="old" style={{ height: share(n) }} />
              <i class="now" style={{ height: share(now[i]) }} />
            </div>
          );
        })}
      </div>
      <div class="ends muted n">
        <span>{number(low)}</span>
        <span>{number(high)}</span>
      </div>
      <span class="hidden">{`Counts by bin. Run: ${old.join(", ")}. This code: ${now.join(", ")}.`}</span>
    </figure>
  );
}
