/** Editor of a reward function. Code is scored on stored samples of a real step while it is typed. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { detectLanguage } from "../../../lib/rewards/language.ts";
import type { RewardFunction } from "../../../resources/training/reward_functions/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api, send } from "../../data/api.ts";
import { reload, useResource, useResources } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { CodeEditor } from "../../kit/code/editor.tsx";
import { type Mark, placeIn } from "../../kit/code/marks.ts";
import { TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Effect } from "./effect.tsx";
import { faultMarks, type Outcome, samplesAt, score } from "./scoring.ts";

const START = `def reward(prompt, completion, answer=None, **row):
    """1 if the completion contains the answer."""
    if answer is None:
        return 0.0
    return float(str(answer) in completion)
`;
const PAUSE_MS = 600;

export function Page({ params }: PageProps) {
  const id = params["id"] === "new" ? undefined : params["id"];
  const path = id === undefined ? null : `/v1/reward_functions/${encodeURIComponent(id)}`;
  const resource = useResource<RewardFunction>(path);
  const [source, setSource] = useState<string>();
  useEffect(() => {
    if (id === undefined) setSource(START);
    else
      void send(`/v1/reward_functions/${encodeURIComponent(id)}/source`)
        .then((answer) => answer.text())
        .then(setSource, (error: unknown) => setSource(`# ${errorText(error)}`));
  }, [id]);
  const reward = resource.data;
  return (
    <Frame
      title={id === undefined ? "New reward" : (reward?.name ?? "Reward")}
      purpose={reward?.description ?? "Code that scores an answer. It runs in the sandbox on samples of a real run."}
      beside={
        reward && <State status={reward.status} detail={reward.builtin ? "built in" : `version ${reward.version}`} />
      }
      above={[["Rewards and evaluators", "/rewards"]]}
    >
      <Loaded
        of={{ ...resource, data: id === undefined || reward ? source : undefined }}
        skeleton={<Skeleton height={400} />}
      >
        {(text) => <Workbench key={id} reward={reward} first={text} />}
      </Loaded>
    </Frame>
  );
}

function Workbench({ reward, first }: { reward: RewardFunction | undefined; first: string }) {
  const [source, setSource] = useState(first);
  const [name, setName] = useState(reward && !reward.builtin ? reward.name : "");
  const jobs = useRewardedJobs();
  const runs = (jobs.data ?? []).filter(({ progress }) => progress.step > 0);
  const job = runs.find(({ id }) => id === queryOf("run")) ?? runs[0];
  const step = Number(queryOf("step")) || job?.progress.step;
  const language = detectLanguage(source);
  const { outcome, marks, busy, error } = useScores(job, step, source);
  const save = async () => {
    try {
      const body = { name, source };
      const kept = await api<RewardFunction>("/v1/reward_functions", { method: "POST", body });
      toast(kept.error ? `Stored as invalid: ${kept.error.message}` : `Saved ${kept.name}, version ${kept.version}`);
      void reload("/v1/reward_functions");
      navigate(`/rewards/${kept.id}${location.search}`);
    } catch (cause) {
      toast(errorText(cause), "bad");
    }
  };
  return (
    <div class="grid half rewards-bench">
      <div class="grid">
        <Card title="Code" note={language ?? "language not known yet"}>
          <CodeEditor
            label="Code of the reward"
            value={source}
            onInput={setSource}
            language={language === "typescript" ? "typescript" : "python"}
            marks={marks}
          />
        </Card>
        {may("training", false) && (
          <Card title="Save">
            <div class="stack">
              <TextField label="Name" value={name} onInput={setName} hint="A name that exists gets its next version." />
              <div class="row">
                <Button kind="primary" onClick={save} disabled={name.trim() === ""}>
                  Save
                </Button>
              </div>
            </div>
          </Card>
        )}
      </div>
      <div class="grid" aria-busy={busy ? "true" : undefined}>
        <Loaded of={jobs}>
          {() => (job ? <Choice runs={runs} job={job} step={step ?? 0} busy={busy} /> : <NoRun />)}
        </Loaded>
        {error !== undefined && (
          <p class="bad" role="alert">
            {error}
          </p>
        )}
        {job && outcome && <Effect outcome={outcome} job={job} code={{ source, language }} />}
        {job && !outcome && busy && <Skeleton height={300} />}
        {outcome && outcome.stdout !== "" && (
          <Card title="Output of the code">
            <pre class="text">{outcome.stdout}</pre>
          </Card>
        )}
      </div>
    </div>
  );
}

const REWARDED = ["grpo", "rloo", "distill"].map((method) => `/v1/training_jobs?limit=100&method=${method}`);

/** Jobs of the methods that learn from rewards, the newest first. */
function useRewardedJobs() {
  const { parts, refresh } = useResources<{ data: TrainingJob[] }>(REWARDED, { events: ["job."] });
  const isLoaded = parts.every(({ data }) => data !== undefined);
  const jobs = parts.flatMap(({ data }) => data?.data ?? []);
  const data = isLoaded ? jobs.sort((a, b) => b.created_at.localeCompare(a.created_at)) : undefined;
  const error = parts.find((part) => part.error)?.error;
  return { data, error, loading: parts.some(({ loading }) => loading), refresh };
}

const NoRun = () => (
  <Card>
    <Empty title="No run to score" action={<LinkButton href="/runs/new">New run</LinkButton>}>
      A run with the method grpo, rloo or distill keeps samples of its steps. This page scores them with the code at the
      left.
    </Empty>
  </Card>
);

type ChoiceProps = { runs: readonly TrainingJob[]; job: TrainingJob; step: number; busy: boolean };

const Choice = ({ runs, job, step, busy }: ChoiceProps) => (
  <Card title="Samples" note={<span role="status">{busy ? "Scoring…" : "Scored"}</span>}>
    <div class="stack">
      <select
        aria-label="Run"
        value={job.id}
        onChange={(event) => setQuery({ run: event.currentTarget.value, step: undefined })}
      >
        {runs.map(({ id, output_name }) => (
          <option key={id} value={id}>
            {output_name}
          </option>
        ))}
      </select>
      <label class="row">
        <span class="n">{`Step ${step} of ${job.progress.step}`}</span>
        <input
          class="rewards-step"
          type="range"
          min={1}
          max={job.progress.step}
          value={step}
          onChange={(event) => setQuery({ step: event.currentTarget.value })}
        />
      </label>
    </div>
  </Card>
);

type Scores = { outcome: Outcome | undefined; marks: Mark[]; busy: boolean; error: string | undefined };

/** Scores again after a pause in typing. The result before stays visible meanwhile. */
function useScores(job: TrainingJob | undefined, step: number | undefined, source: string): Scores {
  const [state, setState] = useState<Scores>({ outcome: undefined, marks: [], busy: false, error: undefined });
  useEffect(() => {
    if (!job || source.trim() === "") return;
    const stop = new AbortController();
    const work = async () => {
      setState((before) => ({ ...before, busy: true }));
      try {
        const samples = await samplesAt(job, step, stop.signal);
        const outcome =
          samples.length === 0
            ? { scored: [], stdout: "", faults: [], withoutRow: 0 }
            : await score(job, samples, { source, language: undefined }, stop.signal);
        setState({ outcome, marks: faultMarks(outcome.faults), busy: false, error: undefined });
      } catch (cause) {
        if (stop.signal.aborted) return;
        const message = errorText(cause);
        const place = placeIn(message);
        const marks = place ? [{ ...place, message: message.replace(/^The reward .*? cannot be run: /, "") }] : [];
        setState((before) => ({ ...before, marks, busy: false, error: place ? undefined : message }));
      }
    };
    const timer = setTimeout(() => void work(), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [job?.id, step, source]);
  return state;
}
