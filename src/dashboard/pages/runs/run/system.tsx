/** The machine while the run ran, by time. Runs on other machines have no figures. */
import { useMemo } from "preact/hooks";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import type { JobSystem } from "../../../../resources/training/training_jobs/views/schema.ts";
import { useResource } from "../../../data/resource.ts";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import { jobPath, type TrainingJob } from "../types.ts";
import { WhenSeen } from "../when_seen.tsx";
import { systemPlots } from "./system_plots.ts";

const HEIGHT_PX = 165;
const EVERY_MS = 10_000;

export function System({ job }: { job: TrainingJob }) {
  const { data } = useResource<JobSystem>(`${jobPath(job.id)}/system`, {
    ...(isJobOver(job.status) ? {} : { everyMs: EVERY_MS }),
  });
  const plots = useMemo(() => systemPlots(data?.data ?? []), [data]);
  if (!data || plots.length === 0 || (data.data.length < 2 && isJobOver(job.status))) return null;
  return (
    <Card title="Machine" note="by time since the start; the processors, memory and disk are of the whole machine">
      <div class="runs-plots">
        {plots.map(({ key, title, x, values, token, format }) => (
          <div key={key}>
            <h3>{title}</h3>
            <WhenSeen height={HEIGHT_PX}>
              <Chart
                label={`${title} by time`}
                x={x}
                series={[{ label: title, values, token }]}
                xLabel="time"
                kind="span"
                format={format}
                height={HEIGHT_PX}
                sync="run machine"
              />
            </WhenSeen>
          </div>
        ))}
      </div>
    </Card>
  );
}
