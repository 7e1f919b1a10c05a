import { linePath } from "../../data/curve.ts";

type SparklineProps = {
  values: readonly number[];
  /** For screen readers, such as "reward, 0.13 to 0.81". */
  label: string;
  width?: number | undefined;
  height?: number | undefined;
  token?: string | undefined;
};

/** A small curve without axes. */
export const Sparkline = ({ values, label, width = 110, height = 26, token = "--c1" }: SparklineProps) => (
  <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
    <path d={linePath(values, width, height)} style={{ stroke: `var(${token})` }} />
  </svg>
);
