/** The side of the run page: settings, checkpoints, energy, and the lock that repeats the run. */

import { useState } from "preact/hooks";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import { bytes, count, money, NONE, number, plural, words } from "../../../data/format.ts";
import { type Page as ListPage, type Resource, useResource } from "../../../data/resource.ts";
import { may } from "../../../data/session.ts";
import { Button } from "../../../kit/button.tsx";
import { Card, Facts } from "../../../kit/card.tsx";
import { CodeView } from "../../../kit/code/editor.tsx";
import { Ref } from "../../../kit/content.tsx";
import { Copy } from "../../../kit/copy.tsx";
import { Json } from "../../../kit/json.tsx";
import { Loaded } from "../../../kit/page.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { Elapsed, Time } from "../../../kit/time.tsx";
import { hasPage } from "../../../shell/router.ts";
import type { Column } from "../../playground/columns.ts";
import { playgroundHref } from "../../playground/link.ts";
import { endsOf } from "../series.ts";
import type { JobCheckpoint, Point, TrainingJob } from "../types.ts";
import { datasetText } from "../words.ts";
import { Deploy } from "./deploy.tsx";

export function Setup({ job }: { job: TrainingJob }) {
  const { hyperparameters: hyper, lora, dataset } = job;
  const set = (name: string) => (hyper[name] === undefined ? [] : [[words(name), shown(hyper[name])] as const]);
  return (
    <Card title="Setup" side={may("training", false) && <a href={`/runs/new?from=${job.id}`}>Edit and run again</a>}>
      <Facts
        rows={[
          ["Base model", job.base_model],
          [
            "Method",
            `${job.method.toUpperCase()}${lora ? `, LoRA rank ${lora.r}` : job.method === "custom" ? "" : ", all weights"}`,
          ],
          ["Dataset", dataset ? <Dataset dataset={dataset} /> : NONE],
          ...(job.eval_dataset
            ? [["Held-out rows", <Dataset key="held" dataset={{ ...job.eval_dataset, num_rows: null }} />] as const]
            : []),
          ...(job.reward_functions.length > 0
            ? [["Rewards", job.reward_functions.map((each) => <Reward key={each.id} {...each} />)] as const]
            : []),
          ...(job.reward_language ? [["Reward code", job.reward_language] as const] : []),
          ["Steps", String(job.progress.total_steps || NONE)] as const,
          ...["learning_rate", "num_generations", "per_device_train_batch_size", "beta"].flatMap(set),
          ["Device", job.gpu ? `${job.gpu.count} × ${job.gpu.type}` : `${job.gpu_requested.type}, not yet given`],
          ["Memory, estimated", bytes(job.memory_bytes)],
          ["Started", job.started_at ? <Time at={job.started_at} /> : NONE],
          ["Took", job.started_at ? <Elapsed since={job.started_at} until={job.completed_at} /> : NONE],
          ...(job.source_job
            ? [
                [
                  "Cloned from",
                  <a key="source" href={`/runs/${job.source_job}`}>
                    {job.source_job}
                  </a>,
                ] as const,
              ]
            : []),
        ]}
      />
      {job.reward_source !== null && (
        <details class="runs-more">
          <summary>Reward code</summary>
          <CodeView
            label="Reward code"
            value={job.reward_source}
            language={job.reward_language === "python" ? "python" : "typescript"}
          />
        </details>
      )}
      <AllSettings job={job} />
      {job.warnings.map(({ message }) => (
        <p key={message} class="warn runs-more">
          {message}
        </p>
      ))}
    </Card>
  );
}

/** A stored reward has a page and a name; a built-in one is its own name. */
function Reward({ id, weight }: { id: string; weight: number }) {
  const isStored = id.startsWith("rf_");
  const stored = useResource<{ name: string }>(isStored ? `/v1/reward_functions/${id}` : null);
  const name = stored.data?.name ?? id;
  return <div>{[isStored ? <a href={`/rewards/${id}`}>{name}</a> : name, ` × ${weight}`]}</div>;
}

/** The tree of all settings is built when it is opened. */
function AllSettings({ job: { hyperparameters, lora, checkpoint, metadata } }: { job: TrainingJob }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="runs-more" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>All settings</summary>
      {isOpen && <Json value={{ hyperparameters, lora, checkpoint, metadata }} />}
    </details>
  );
}

const shown = (value: unknown): string => (typeof value === "number" ? number(value) : JSON.stringify(value));

const Dataset = ({ dataset }: { dataset: NonNullable<TrainingJob["dataset"]> }) => (
  <Ref page="/datasets/:id" id={dataset.id}>
    {datasetText(dataset)}
  </Ref>
);

type CheckpointsProps = { job: TrainingJob; checkpoints: Resource<ListPage<JobCheckpoint>> };

export function Checkpoints({ job, checkpoints }: CheckpointsProps) {
  const [chosen, setChosen] = useState<JobCheckpoint | undefined>(undefined);
  const saved = checkpoints.data?.data ?? [];
  const best = saved.find(({ is_best: isBest }) => isBest);
  const newest = [...(best ? [best] : []), ...saved.filter((each) => each !== best)].slice(0, 3);
  const columns: Column[] = [
    { kind: "model", name: job.base_model },
    ...newest.map(({ id }) => ({ kind: "run", job: job.id, checkpoint: id }) as const),
  ];
  return (
    <Card
      title="Checkpoints"
      side={
        hasPage("/playground") &&
        newest.length > 0 && (
          <a href={playgroundHref({ columns, sampling: { temperature: 0 } })}>Compare in the playground</a>
        )
      }
    >
      <Loaded of={checkpoints}>
        {({ data }) =>
          data.length === 0 ? (
            <p class="muted">{noneYet(job)}</p>
          ) : (
            <>
              {job.best_by !== null && <p class="muted runs-ranked">{rankingText(job.best_by, best?.step)}</p>}
              <ul class="runs-checkpoints">
                {data.map((checkpoint) => (
                  <li key={checkpoint.id}>
                    <span>
                      <b class="n">{`step ${checkpoint.step}`}</b>{" "}
                      {checkpoint.is_best && (
                        <span title={`By ${checkpoint.ranked_by}`}>
                          <Pill tone="good">best</Pill>
                        </span>
                      )}
                      <small>
                        {`${number(checkpoint.score)} · ${bytes(checkpoint.size_bytes)} · `}
                        <Time at={checkpoint.created_at} />
                      </small>
                    </span>
                    {may("inference", false) && (
                      <Button onClick={() => setChosen(checkpoint)} label={`Deploy step ${checkpoint.step}`}>
                        Deploy
                      </Button>
                    )}
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </Loaded>
      {chosen && <Deploy job={job} checkpoint={chosen} onClose={() => setChosen(undefined)} />}
    </Card>
  );
}

const rankingText = (by: string, step: number | undefined): string =>
  step === undefined ? `Ranked by ${by}; none has learned anything yet.` : `Best is step ${step}, by ${by}.`;

function noneYet({ status, checkpoint: { save_steps: every } }: TrainingJob): string {
  if (isJobOver(status)) return "None was saved.";
  return every === 0 ? "One is saved at the end." : `One is saved every ${plural(every, "step")}; none yet.`;
}

export function Energy({ job, points }: { job: TrainingJob; points: readonly Point[] }) {
  const tokens = endsOf(points, "num_tokens")?.last;
  const each = tokens && job.energy_wh !== null ? (3600 * job.energy_wh) / tokens : undefined;
  return (
    <Card title="Cost and energy">
      <Facts
        rows={[
          ["Cost so far", money(job.cost_usd)],
          ["Cost limit", job.max_cost_usd === null ? "none" : money(job.max_cost_usd)],
          ["Tokens", count(tokens)],
          ["Energy", job.energy_wh === null ? "not measured on this device" : `${number(job.energy_wh)} Wh`],
          ...(each === undefined ? [] : [["Joules a token", number(each)] as const]),
        ]}
      />
    </Card>
  );
}

/** Everything that is needed to repeat the run. */
export const Lock = ({ job: { id, lock } }: { job: TrainingJob }) => (
  <Card
    title="Lock"
    note="repeats the run exactly"
    side={<Copy text={JSON.stringify(lock, null, 2)} label="Copy the lock" />}
  >
    <Facts
      rows={[
        ["Run", <code key="id">{id}</code>],
        ["Model", <Hash key="model" of={lock.base_model_sha256} />],
        ["Rows", <Hash key="rows" of={lock.snapshot_sha256} />],
        ["Reward", <Hash key="reward" of={lock.reward_sha256} />],
        ["Version", lock.app_version],
        ["Seed", String(lock.seed)],
      ]}
    />
  </Card>
);

const Hash = ({ of }: { of: string | null }) =>
  of === null ? <span>{NONE}</span> : <code title={of}>{of.slice(0, 12)}</code>;
