import { useState } from "preact/hooks";
import type { Dataset, Snapshot } from "../../../resources/data/datasets/schema.ts";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { CheckField, SelectField, TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { bodyOf, type Form, isReady, namesOf, type TargetForm } from "./form.ts";
import { NEW_TARGET, TargetRow } from "./target_row.tsx";

const EMPTY: Omit<Form, "dataset"> = {
  name: "",
  snapshot: "",
  targets: [NEW_TARGET, NEW_TARGET],
  evaluators: [],
  baseline: 0,
  maxRows: "",
  referenceField: "",
  systemPrompt: "",
  temperature: "0",
  maxTokens: "",
};

export function Page() {
  const [form, setForm] = useState<Form>(() => ({ ...EMPTY, dataset: queryOf("dataset") ?? "" }));
  const change = (changes: Partial<Form>) => setForm((before) => ({ ...before, ...changes }));
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100").data?.data ?? [];
  const shown = ({ type, value }: TargetForm) =>
    (type === "deployment" && deployments.find(({ id }) => id === value)?.name) || value.trim();
  const names = namesOf(form.targets, shown);
  const create = async () => {
    const experiment = await attempt(() =>
      api<Experiment>("/v1/experiments", { method: "POST", body: bodyOf(form, names) }),
    );
    if (!experiment) return;
    await reload("/v1/experiments?");
    navigate(`/experiments/${experiment.id}`);
  };
  const replace = (i: number, target: TargetForm) =>
    change({ targets: form.targets.map((each, at) => (at === i ? target : each)) });
  return (
    <Frame
      title="New experiment"
      purpose="Each target answers the same rows. The first comparison is ready in minutes."
      above={[["Experiments", "/experiments"]]}
    >
      <Card class="experiments-form">
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady(form)) void create();
          }}
        >
          <TextField label="Name" value={form.name} onInput={(name) => change({ name })} hint="May be left empty" />
          <DatasetFields form={form} change={change} />
          <h3>Targets</h3>
          {form.targets.map((target, i) => (
            <TargetRow
              key={i}
              target={target}
              deployments={deployments}
              onChange={(changed) => replace(i, changed)}
              onRemove={
                form.targets.length > 1
                  ? () => change({ targets: form.targets.filter((_, at) => at !== i), baseline: 0 })
                  : undefined
              }
            />
          ))}
          <div class="row">
            <Button icon="plus" onClick={() => change({ targets: [...form.targets, NEW_TARGET] })}>
              Add target
            </Button>
          </div>
          <SelectField
            label="Compare with"
            value={String(form.baseline)}
            options={names.map((name, i) => [String(i), name || `Target ${i + 1}`] as const)}
            onChange={(value) => change({ baseline: Number(value) })}
          />
          <Evaluators chosen={form.evaluators} onChange={(evaluators) => change({ evaluators })} />
          <More form={form} change={change} />
          <div class="row">
            <Button kind="primary" submit disabled={!isReady(form)}>
              Start experiment
            </Button>
          </div>
        </form>
      </Card>
    </Frame>
  );
}

type PartProps = { form: Form; change: (changes: Partial<Form>) => void };

function DatasetFields({ form, change }: PartProps) {
  const datasets = useResource<ListPage<Dataset>>("/v1/datasets?limit=100");
  const snapshots = useResource<ListPage<Snapshot>>(
    form.dataset === "" ? null : `/v1/datasets/${form.dataset}/snapshots?limit=50`,
  );
  return (
    <div class="grid half">
      <SelectField
        label="Dataset"
        value={form.dataset}
        options={[["", "Choose a dataset"], ...(datasets.data?.data ?? []).map(({ id, name }) => [id, name] as const)]}
        onChange={(dataset: string) => change({ dataset, snapshot: "" })}
        error={datasets.data ? undefined : datasets.error?.message}
      />
      <SelectField
        label="Snapshot"
        value={form.snapshot}
        options={[
          ["", "Current rows"],
          ...(snapshots.data?.data ?? []).map(
            ({ id, row_count }) => [id, `${id.replace("@", "")} (${plural(row_count, "row")})`] as const,
          ),
        ]}
        onChange={(snapshot: string) => change({ snapshot })}
      />
    </div>
  );
}

function Evaluators({ chosen, onChange }: { chosen: readonly string[]; onChange: (names: readonly string[]) => void }) {
  const evaluators = useResource<ListPage<Evaluator>>("/v1/evaluators?limit=100", { events: ["evaluator."] });
  return (
    <fieldset class="experiments-checks">
      <legend>Evaluators</legend>
      <Loaded of={evaluators}>
        {({ data }) => {
          const names = [...new Set(data.map(({ name }) => name))];
          if (names.length === 0)
            return (
              <Empty
                title="No evaluator yet"
                action={<LinkButton href="/rewards/evaluators/new">New evaluator</LinkButton>}
              >
                An evaluator scores an answer. Create one first.
              </Empty>
            );
          return names.map((name) => (
            <CheckField
              key={name}
              label={name}
              checked={chosen.includes(name)}
              onChange={(on) => onChange(on ? [...chosen, name] : chosen.filter((each) => each !== name))}
            />
          ));
        }}
      </Loaded>
    </fieldset>
  );
}

const More = ({ form, change }: PartProps) => (
  <details>
    <summary>More settings</summary>
    <div class="stack">
      <div class="grid half">
        <TextField
          label="Most rows"
          type="number"
          value={form.maxRows}
          onInput={(maxRows) => change({ maxRows })}
          hint="Empty: all rows"
        />
        <TextField
          label="Column of the right answer"
          value={form.referenceField}
          onInput={(referenceField) => change({ referenceField })}
          hint="Empty: by the format of the row"
        />
        <TextField
          label="Temperature"
          type="number"
          value={form.temperature}
          onInput={(temperature) => change({ temperature })}
        />
        <TextField
          label="Most tokens of an answer"
          type="number"
          value={form.maxTokens}
          onInput={(maxTokens) => change({ maxTokens })}
          hint="Empty: the rest of the context"
        />
      </div>
      <TextField
        label="System prompt"
        rows={3}
        value={form.systemPrompt}
        onInput={(systemPrompt) => change({ systemPrompt })}
        hint="Replaces the system message of every row"
      />
    </div>
  </details>
);
