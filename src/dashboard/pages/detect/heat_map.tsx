/** The picture with the squares that the models have read, each in the colour of its score. */
import { useState } from "preact/hooks";
import { CheckField } from "../../kit/field.tsx";
import { scoreOf } from "./words.ts";

type HeatMapProps = {
  /** Undefined: the browser no longer has the picture. */
  url: string | undefined;
  width: number;
  height: number;
  size: number;
  crops: readonly { x: number; y: number; score: number }[];
};

export function HeatMap({ url, width, height, size, crops }: HeatMapProps) {
  const [isOn, setOn] = useState(true);
  const text = Math.max(width, height) / 34;
  return (
    <div class="detect-map">
      <div
        class="detect-frame"
        style={{ aspectRatio: `${width} / ${height}`, maxWidth: `min(100%, ${(520 * width) / height}px)` }}
      >
        {url !== undefined && <img src={url} alt="The file" />}
        {isOn && (
          <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={sayCrops(crops)}>
            {crops.map(({ x, y, score }) => {
              const [w, h] = [Math.min(size, width - x), Math.min(size, height - y)];
              return (
                <g key={`${x} ${y}`}>
                  <rect
                    x={x}
                    y={y}
                    width={w}
                    height={h}
                    class={classOf(score)}
                    style={{ fillOpacity: opacityOf(score) }}
                  />
                  <text x={x + w / 2} y={y + h / 2} style={{ fontSize: `${text}px` }}>
                    {scoreOf(score)}
                  </text>
                </g>
              );
            })}
          </svg>
        )}
      </div>
      <div class="detect-legend">
        <CheckField label="Show the squares" checked={isOn} onChange={setOn} />
        <small class="muted">Only these squares were read. One square alone is weak evidence.</small>
      </div>
    </div>
  );
}

const classOf = (score: number) => (score >= 0.55 ? "high" : score < 0.45 ? "low" : "middle");
const opacityOf = (score: number) => 0.1 + 0.35 * Math.abs(score - 0.5) * 2;
const sayCrops = (crops: HeatMapProps["crops"]) =>
  `Scores of the squares: ${crops.map(({ score }) => scoreOf(score)).join(", ")}`;
