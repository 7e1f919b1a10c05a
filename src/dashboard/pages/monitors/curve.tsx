import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import type { MonitorValues } from "../../../resources/watching/monitors/values.ts";
import { useResource } from "../../data/resource.ts";
import { Sparkline } from "../../kit/chart/sparkline.tsx";
import { inUnit } from "./words.ts";

/** The values of the last day, small. */
export function Curve({ of: { id, unit, severity } }: { of: Monitor }) {
  const path = `/v1/monitors/${id}/values?max_points=60`;
  const { data } = useResource<MonitorValues>(path, { everyMs: 60_000 });
  const values = (data?.data ?? []).flatMap(({ value }) => value ?? []);
  if (values.length < 2) return <span class="monitors-curve" />;
  const label = `${inUnit(Math.min(...values), unit)} to ${inUnit(Math.max(...values), unit)}`;
  const token = severity === "alert" ? "--bad" : severity === "warning" ? "--warn" : "--c1";
  return (
    <span class="monitors-curve">
      <Sparkline values={values} label={label} width={120} height={24} token={token} />
    </span>
  );
}
