/** How curves are shown: smoothed or not, linear or logarithmic. Kept in the address, so that a link shows the same. */
import type { ComponentChildren } from "preact";
import { Button } from "../../kit/button.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";

export type CurveStyle = { smoothing: number; log: boolean };

const MOST = 0.99;

export function styleOf(): CurveStyle {
  const weight = Number(queryOf("smooth") ?? 0);
  return { smoothing: weight > 0 && weight <= MOST ? weight : 0, log: queryOf("log") === "1" };
}

/** `children`: more buttons of the page. */
export function StyleBar({
  curveStyle: { smoothing, log },
  children,
}: {
  curveStyle: CurveStyle;
  children?: ComponentChildren;
}) {
  return (
    <div class="runs-look">
      <label>
        Smoothing
        <input
          type="range"
          min={0}
          max={MOST}
          step={0.01}
          value={smoothing}
          onInput={(event) => setQuery({ smooth: Number(event.currentTarget.value) || undefined })}
        />
        <output class="n">{smoothing.toFixed(2)}</output>
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={log}
          onChange={(event) => setQuery({ log: event.currentTarget.checked ? 1 : undefined })}
        />
        Log scale
      </label>
      {(smoothing > 0 || log) && (
        <Button kind="quiet" onClick={() => setQuery({ smooth: undefined, log: undefined })}>
          As measured
        </Button>
      )}
      <span class="fill" />
      {children}
    </div>
  );
}
