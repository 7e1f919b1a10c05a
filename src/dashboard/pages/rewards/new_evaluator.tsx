/** A new evaluator, or the next version of one (`?from=evl_…`). What runs in the sandbox is tried while it is typed. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { detectLanguage } from "../../../lib/rewards/language.ts";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { RewardFunction, RewardRun } from "../../../resources/training/reward_functions/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { NONE, number } from "../../data/format.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Stat } from "../../kit/card.tsx";
import { CodeEditor, JsonField } from "../../kit/code/editor.tsx";
import { type Mark, placeIn } from "../../kit/code/marks.ts";
import { CheckField, SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Table } from "../../kit/table.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { bodyOf, type Form, formOf, KINDS, rewardRow, rowsOf, START, trialOf } from "./evaluator_form.ts";
import { faultMarks } from "./scoring.ts";
import { EXAMPLE } from "./try.tsx";

const ABOVE = [["Rewards and evaluators", "/rewards?tab=evaluators"]] as const;
const PAUSE_MS = 600;

export function New() {
  const from = queryOf("from");
  const source = useResource<Evaluator>(from === undefined ? null : `/v1/evaluators/${encodeURIComponent(from)}`);
  return (
    <Frame
      title={from === undefined ? "New evaluator" : `New version of ${source.data?.name ?? "an evaluator"}`}
      purpose="Judges answers of any model, by a rule, by code or by another model."
      above={ABOVE}
    >
      {from === undefined ? (
        <Workbench first={START} />
      ) : (
        <Loaded of={source} skeleton={<Skeleton height={420} />}>
          {(evaluator) => <Workbench key={evaluator.id} first={formOf(evaluator)} isNext />}
        </Loaded>
      )}
    </Frame>
  );
}

function Workbench({ first, isNext = false }: { first: Form; isNext?: boolean }) {
  const [form, setForm] = useState(first);
  const [rows, setRows] = useState(EXAMPLE);
  const [error, setError] = useState<ApiError>();
  const change = (part: Partial<Form>) => setForm((before) => ({ ...before, ...part }));
  const request = bodyOf(form);
  const trial = useTrial(form, rows);
  const create = async () => {
    try {
      if ("fault" in request) throw new Error(request.fault);
      const kept = await api<Evaluator>("/v1/evaluators", { method: "POST", body: request.body });
      toast(`Saved ${kept.name}, version ${kept.version}`);
      void reload("/v1/evaluators");
      navigate(`/rewards/evaluators/${kept.id}`);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  return (
    <div class="grid half rewards-bench">
      <Card title="Settings">
        <div class="stack">
          <div class="grid half">
            {!isNext && (
              <TextField
                label="Name"
                value={form.name}
                onInput={(name) => change({ name })}
                hint="A name that exists gets its next version."
              />
            )}
            <SelectField label="Kind" value={form.kind} options={KINDS} onChange={(kind) => change({ kind })} />
            <TextField
              label="Passes from"
              value={form.threshold}
              onInput={(threshold) => change({ threshold })}
              hint="The least score that passes. Checks pass with 1 by default."
            />
          </div>
          <TextField
            label="Meaning"
            value={form.description}
            onInput={(description) => change({ description })}
            hint="One line for others."
          />
          <Config form={form} change={change} marks={trial.marks} />
          {error && <ErrorBox error={error} />}
          <div class="row">
            <Button kind="primary" onClick={create} disabled={form.name.trim() === "" || !may("training", false)}>
              {isNext ? "Save version" : "Create evaluator"}
            </Button>
          </div>
        </div>
      </Card>
      <Card title="Try it" note={<span role="status">{trial.note}</span>}>
        <div class="stack">
          <JsonField
            label="Rows"
            value={rows}
            onInput={setRows}
            rows={4}
            isLines
            hint="One JSON object on each line, with input, output and reference."
          />
          {trial.error !== undefined && <p class="bad">{trial.error}</p>}
          {trial.run ? <Scores run={trial.run} /> : <p class="muted">{trial.idle}</p>}
        </div>
      </Card>
    </div>
  );
}

type ConfigProps = { form: Form; change: (part: Partial<Form>) => void; marks: readonly Mark[] };

const OPERATIONS = [
  ["equals", "is the text"],
  ["contains", "contains the text"],
  ["starts_with", "starts with the text"],
  ["regex", "matches the pattern"],
] as const;

function Config({ form, change, marks }: ConfigProps) {
  const { kind } = form;
  return (
    <>
      {kind === "string_check" && (
        <div class="grid half">
          <SelectField
            label="The answer"
            value={form.operation}
            options={OPERATIONS}
            onChange={(operation) => change({ operation })}
          />
          <TextField
            label="Text or pattern"
            value={form.value}
            onInput={(value) => change({ value })}
            hint="Empty: the reference of each row."
          />
          <CheckField
            label="Ignore case"
            checked={form.ignoresCase}
            onChange={(ignoresCase) => change({ ignoresCase })}
          />
        </div>
      )}
      {kind === "json_schema" && (
        <JsonField
          label="Schema"
          value={form.schema}
          onInput={(schema) => change({ schema })}
          rows={8}
          hint="The answer passes if it is JSON that fits."
        />
      )}
      {kind === "code" && (
        <CodeEditor
          label="Code of the evaluator"
          value={form.source}
          onInput={(source) => change({ source })}
          language={detectLanguage(form.source) === "typescript" ? "typescript" : "python"}
          marks={marks}
        />
      )}
      {kind === "reward_function" && <Reward form={form} change={change} />}
      {(kind === "similarity" || kind === "llm_judge") && <Judge form={form} change={change} />}
      <JsonField
        label="Other settings"
        value={form.more}
        onInput={(more) => change({ more })}
        rows={2}
        hint="JSON. docs/evaluators.md lists the settings of each kind."
      />
    </>
  );
}

function Reward({ form, change }: Omit<ConfigProps, "marks">) {
  const library = useResource<ListPage<RewardFunction>>("/v1/reward_functions/library");
  const stored = useResource<ListPage<RewardFunction>>("/v1/reward_functions?kind=reward&latest=true&limit=100");
  const usable = [...(stored.data?.data ?? []), ...(library.data?.data ?? [])].filter(
    ({ status }) => status !== "invalid",
  );
  const options = usable.map(
    ({ id, name, version, builtin }) => [id, builtin ? `${name} (built in)` : `${name}, version ${version}`] as const,
  );
  const isListed = form.reward === "" || options.some(([id]) => id === form.reward);
  return (
    <>
      <SelectField
        label="Reward function"
        value={form.reward}
        options={[["", "Choose one"], ...options, ...(isListed ? [] : [[form.reward, form.reward] as const])]}
        onChange={(reward) => change({ reward })}
        hint={usable.find(({ id }) => id === form.reward)?.description}
      />
      <JsonField label="Parameters" value={form.params} onInput={(params) => change({ params })} rows={3} hint="JSON" />
    </>
  );
}

function Judge({ form, change }: Omit<ConfigProps, "marks">) {
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100");
  const names = [...new Set((deployments.data?.data ?? []).map(({ name }) => name))];
  const all = form.deployment === "" || names.includes(form.deployment) ? names : [...names, form.deployment];
  return (
    <>
      <SelectField
        label="Deployment"
        value={form.deployment}
        options={[["", "Choose one"], ...all.map((name) => [name, name] as const)]}
        onChange={(deployment) => change({ deployment })}
        hint={form.kind === "similarity" ? "Of a model for embeddings." : "Of the model that judges."}
      />
      {form.kind === "llm_judge" && (
        <>
          <TextField
            label="Rubric"
            value={form.rubric}
            onInput={(rubric) => change({ rubric })}
            rows={4}
            hint="What makes an answer good or bad."
          />
          <div class="grid half">
            <TextField label="Lowest score" value={form.min} onInput={(min) => change({ min })} />
            <TextField label="Highest score" value={form.max} onInput={(max) => change({ max })} />
          </div>
        </>
      )}
    </>
  );
}

type Trial = { run?: RewardRun; marks: readonly Mark[]; error?: string; note: string; idle: string };

const LATER = "Create it, then run it here: this kind is not tried before it is stored.";

/** Scores the rows with the settings as they are, after a pause in typing. */
function useTrial(form: Form, text: string): Trial {
  const [state, setState] = useState<Omit<Trial, "idle">>({ marks: [], note: "" });
  const made = bodyOf(form);
  const part = "config" in made ? trialOf(form, made.config) : undefined;
  const key = JSON.stringify(part ?? null);
  useEffect(() => {
    if (!part || !("config" in made)) return setState({ marks: [], note: "" });
    const stop = new AbortController();
    const work = async () => {
      try {
        const body = { ...part, rows: rowsOf(text).map((row) => rewardRow(row, made.config)) };
        if (body.rows.length === 0) return setState({ marks: [], note: "" });
        setState((before) => ({ ...before, note: "Scoring…" }));
        const run = await api<RewardRun>("/v1/reward_functions/run", { method: "POST", body, signal: stop.signal });
        setState({ run, marks: faultMarks(run.results), note: "Scored" });
      } catch (cause) {
        if (stop.signal.aborted) return;
        const message = errorText(cause);
        const place = form.kind === "code" ? placeIn(message) : undefined;
        setState({ marks: place ? [{ ...place, message }] : [], note: "", ...(place ? {} : { error: message }) });
      }
    };
    const timer = setTimeout(() => void work(), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, text]);
  return { ...state, idle: part ? "" : "fault" in made ? made.fault : LATER };
}

const Scores = ({ run: { results, summary } }: { run: RewardRun }) => (
  <>
    <div class="grid stats">
      <Stat label="Mean" value={number(summary.mean)} />
      <Stat label="Without a score" value={summary.count - summary.scored} />
    </div>
    <Table
      label="Scores"
      rows={results}
      keyOf={({ index }) => String(index)}
      columns={[
        { title: "Row", cell: ({ index }) => index + 1, numeric: true },
        { title: "Score", cell: ({ reward }) => number(reward), numeric: true },
        { title: "Error", cell: ({ error }) => error?.message ?? NONE },
      ]}
    />
  </>
);
