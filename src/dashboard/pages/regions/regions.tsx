/** The places where jobs and deployments can run: their devices, their load, and the work on each. */
import { useState } from "preact/hooks";
import { isJobOver } from "../../../lib/training/job_status.ts";
import type { Region } from "../../../resources/machines/regions/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { Holder, Names } from "../../data/gpu_map.ts";
import { areAnswered, type Page as ListPage, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { More } from "../../kit/table.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { MemoryMap, useMemory } from "../home/memory_map.tsx";
import { Add } from "./add.tsx";
import { Node } from "./node.tsx";
import { Delete } from "./remove.tsx";
import { isLocal, type Work, workOf } from "./words.ts";

const EVERY_MS = 10_000;

export function Page() {
  const list = useList<Region>("/v1/regions?limit=50", { events: ["region."], everyMs: EVERY_MS });
  const memory = useMemory();
  const { isAnswered, ...work } = useWork();
  const shown = { ...list, data: memory.isAnswered && isAnswered ? list.items : undefined };
  const [deleted, setDeleted] = useState<Region>();
  const mayChange = may("account", false);
  const add = () => setQuery({ new: 1 });
  return (
    <Frame
      title="Regions"
      purpose="Where jobs and deployments can run: this machine, machines over SSH, and clusters with Slurm."
      actions={
        mayChange && (
          <Button kind="primary" icon="plus" onClick={add}>
            Add a region
          </Button>
        )
      }
    >
      <Loaded of={shown} skeleton={<Skeleton height={420} />}>
        {(rows) => (
          <div class="grid">
            <MemoryMap memory={memory} names={namesOf(work)} />
            <div class="regions-nodes">
              {rows.map((region) => (
                <Node
                  key={region.id}
                  region={region}
                  devices={memory.queue.data}
                  work={workOf(region.id, work)}
                  onDelete={() => setDeleted(region)}
                />
              ))}
            </div>
            {rows.every(isLocal) && (
              <Card>
                <Empty
                  title="All work runs on this machine"
                  command="verk regions add lab --host ada@lab.example --identity ~/.ssh/id_ed25519"
                  action={mayChange && <Button onClick={add}>Add a region</Button>}
                >
                  Add a machine over SSH or a cluster with Slurm. The server copies its own executable there; nothing is
                  installed, and no port is opened.
                </Empty>
              </Card>
            )}
            <More list={list} />
          </div>
        )}
      </Loaded>
      {deleted && <Delete region={deleted} onClose={() => setDeleted(undefined)} />}
      {mayChange && queryOf("new") !== undefined && <Add onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}

/** Work that has not ended, of the newest jobs and deployments. */
function useWork(): Work & { isAnswered: boolean } {
  const jobs = useResource<ListPage<TrainingJob>>("/v1/training_jobs?limit=100", {
    events: ["job."],
    everyMs: EVERY_MS,
  });
  const deployments = useResource<ListPage<Deployment>>(may("inference") ? "/v1/deployments?limit=100" : null, {
    events: ["deployment."],
    everyMs: EVERY_MS,
  });
  return {
    isAnswered: areAnswered(jobs, deployments),
    jobs: (jobs.data?.data ?? []).filter(({ status }) => !isJobOver(status)),
    deployments: (deployments.data?.data ?? []).filter(({ status }) => status !== "stopped" && status !== "failed"),
  };
}

function namesOf({ jobs, deployments }: Work): Names {
  const names = new Map<string, Holder>();
  for (const { id, output_name: name } of jobs) names.set(id, { name, href: `/runs/${id}` });
  for (const { id, name } of deployments) names.set(id, { name, href: `/deployments/${id}` });
  return names;
}
