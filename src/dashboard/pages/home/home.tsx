import { isJobOver } from "../../../lib/training/job_status.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { plural } from "../../data/format.ts";
import type { Names } from "../../data/gpu_map.ts";
import { type Page as ListPage, type Resource, useResource } from "../../data/resource.ts";
import { may, session } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Page as Frame, Skeleton } from "../../kit/page.tsx";
import { hasPage } from "../../shell/router.ts";
import { Alerts, useAlerts } from "./alerts.tsx";
import { Deployments } from "./deployments.tsx";
import { MemoryMap, useMemory } from "./memory_map.tsx";
import { RecentRuns } from "./recent_runs.tsx";

export function Page() {
  const jobs = useResource<ListPage<TrainingJob>>(may("training") ? "/v1/training_jobs?limit=8" : null, {
    events: ["job."],
    everyMs: 3_000,
  });
  const deployments = useResource<ListPage<Deployment>>(may("inference") ? "/v1/deployments?limit=20" : null, {
    events: ["deployment."],
    everyMs: 10_000,
  });
  const memory = useMemory(may("training"));
  const alerts = useAlerts(jobs, deployments);
  const names = namesOf(jobs.data?.data ?? [], deployments.data?.data ?? []);
  const isNew = jobs.data?.data.length === 0;
  return (
    <Frame
      title={titleOf(jobs, deployments)}
      purpose={session.value.is === "in" ? `Workspace ${session.value.session.workspace.name}` : undefined}
      actions={
        <>
          {may("training") && (
            <LinkButton href="/welcome" kind={isNew ? "primary" : undefined}>
              Get started
            </LinkButton>
          )}
          {hasPage("/runs/new") && (
            <LinkButton href="/runs/new" kind={isNew ? undefined : "primary"}>
              New run
            </LinkButton>
          )}
        </>
      }
    >
      <div class="grid">
        {may("training") && <MemoryMap memory={memory} names={names} />}
        {!memory.isAnswered && may("training") && <Skeleton height={320} />}
        {memory.isAnswered && (
          <div class="grid two">
            {may("training") && <RecentRuns jobs={jobs} />}
            <div class="grid">
              {alerts ? (
                <Alerts alerts={alerts} />
              ) : (
                <Card>
                  <Skeleton />
                </Card>
              )}
              {alerts && may("inference") && <Deployments deployments={deployments} />}
            </div>
          </div>
        )}
      </div>
    </Frame>
  );
}

/** "2 runs, 3 deployments now" */
function titleOf(jobs: Resource<ListPage<TrainingJob>>, deployments: Resource<ListPage<Deployment>>): string {
  const running = jobs.data?.data.filter(({ status }) => status !== "paused" && !isJobOver(status)).length;
  const serving = deployments.data?.data.filter(({ status, parked }) => status === "serving" && !parked).length;
  if (running === undefined && serving === undefined) return "Home";
  if (!running && !serving) return "Nothing runs now";
  const parts = [running ? plural(running, "run") : "", serving ? plural(serving, "deployment") : ""];
  return `${parts.filter((part) => part !== "").join(" and ")} at work`;
}

function namesOf(jobs: readonly TrainingJob[], deployments: readonly Deployment[]): Names {
  const link = (list: string, id: string) => (hasPage(`${list}/:id`) ? `${list}/${id}` : undefined);
  return new Map([
    ...jobs.map(({ id, output_name: name }) => [id, { name, href: link("/runs", id) }] as const),
    ...deployments.map(({ id, name }) => [id, { name, href: link("/deployments", id) }] as const),
  ]);
}
