/** A new run, or one like another (`?from=job_…`). It is tried out while you type. */
import { api } from "../../../data/api.ts";
import { useResource } from "../../../data/resource.ts";
import { Button } from "../../../kit/button.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../../kit/page.tsx";
import { navigate, queryOf } from "../../../shell/router.ts";
import { attempt } from "../../../shell/toasts.tsx";
import { hasReward, METHODS } from "../methods.ts";
import { jobPath, type TrainingJob } from "../types.ts";
import { useFittingCode } from "./default_code.ts";
import { useDraft } from "./draft.ts";
import { DryRunCard, type Fault, faultAt, useDryRun } from "./dry_run.tsx";
import { Basics, Numbers, Reward } from "./fields.tsx";
import { bodyOf, EMPTY, type Form, formOf, NUMBERS } from "./form.ts";

export function Page() {
  const from = queryOf("from");
  const source = useResource<TrainingJob>(from === undefined ? null : jobPath(from));
  if (from === undefined) return <NewRun start={startOf()} source={undefined} />;
  return source.data ? (
    <NewRun key={from} start={formOf(source.data)} source={source.data} />
  ) : (
    <Frame title="New run" above={[["Runs", "/runs"]]}>
      <Loaded of={source} skeleton={<Skeleton height={600} />}>
        {() => null}
      </Loaded>
    </Frame>
  );
}

/** The address may name the model, the dataset and the method. */
const startOf = (): Form => ({
  ...EMPTY,
  model: queryOf("model") ?? "",
  dataset: queryOf("dataset") ?? "",
  reward: queryOf("reward") ?? EMPTY.reward,
  rank: queryOf("rank") ?? EMPTY.rank,
  method: METHODS.find((method) => method === queryOf("method")) ?? EMPTY.method,
});

function NewRun({ start, source }: { start: Form; source: TrainingJob | undefined }) {
  const { form, change, isKept, startOver, forget } = useDraft(start, source?.id);
  const request = bodyOf(form, source?.id);
  const isComplete = form.model !== "" && form.dataset !== "";
  const body = "body" in request ? request.body : undefined;
  const dry = useDryRun(isComplete ? body : undefined);
  const formFaults: Fault[] =
    "faults" in request ? Object.entries(request.faults).map(([param, message]) => ({ param, message })) : [];
  const faults = formFaults.length > 0 ? formFaults : dry.faults; // the dry run knows nothing of a form that it cannot get
  const fields = { form, change, faultOf: (pointer: string) => faultAt(faults, pointer) };
  useFittingCode(
    { dataset: form.dataset, code: form.code, isWanted: hasReward(form.method) && form.reward === "code" },
    (code) => change({ code }),
  );
  const create = async () => {
    const job = await attempt(() => api<TrainingJob>("/v1/training_jobs", { method: "POST", body }), "Queued");
    if (!job) return;
    forget();
    navigate(`/runs/${job.id}`);
  };
  return (
    <Frame
      title={source ? `New run like ${source.output_name}` : "New run"}
      purpose="Nothing starts before you press Start. The dry run beside the form costs nothing."
      above={[["Runs", "/runs"]]}
      actions={
        <Button
          kind="primary"
          icon="play"
          disabled={!isComplete || body === undefined || faults.length > 0}
          onClick={create}
        >
          Start
        </Button>
      }
    >
      <div class="grid two runs-new">
        <div class="grid">
          {isKept && (
            <p class="runs-kept" role="status">
              This is the form that you left without starting a run.{" "}
              <Button kind="quiet" onClick={startOver}>
                Start over
              </Button>
            </p>
          )}
          <Basics {...fields} />
          {hasReward(form.method) && <Reward {...fields} canKeep={source !== undefined} />}
          <Numbers
            {...fields}
            resolved={dry.answer?.resolved_hyperparameters}
            steps={dry.answer?.estimate.total_steps}
          />
        </div>
        <DryRunCard
          run={dry}
          faults={faults}
          others={faults.filter(({ param }) => !hasField(param))}
          isComplete={isComplete}
        />
      </div>
    </Frame>
  );
}

const FIELDS: readonly string[] = [
  ...["/base_model", "/method", "/dataset", "/eval_dataset", "/output_name", "/reward_functions", "/reward_source"],
  ...[
    "/lora/r",
    "/seed",
    "/max_cost_usd",
    "/hyperparameters",
    ...NUMBERS.map(({ name }) => `/hyperparameters/${name}`),
  ],
];
const hasField = (param: string | null) => param !== null && FIELDS.includes(param);
