/** The fields of the form. Each shows the fault that the dry run found in it. */
import { detectLanguage } from "../../../../lib/rewards/language.ts";
import { REWARD } from "../../../../lib/training/sums.ts";
import type { Dataset } from "../../../../resources/data/datasets/schema.ts";
import type { Model } from "../../../../resources/serving/models/schema.ts";
import type { RewardFunction } from "../../../../resources/training/reward_functions/schema.ts";
import { count, number } from "../../../data/format.ts";
import { type Page as ListPage, useResource } from "../../../data/resource.ts";
import { useRunNames } from "../../../data/run_names.ts";
import { Button } from "../../../kit/button.tsx";
import { Card } from "../../../kit/card.tsx";
import { CodeEditor, JsonField } from "../../../kit/code/editor.tsx";
import { marksOf } from "../../../kit/code/marks.ts";
import { SelectField, TextField } from "../../../kit/field.tsx";
import { METHODS, type Method } from "../methods.ts";
import { ENVIRONMENT, isStart } from "./default_code.ts";
import { type Form, NUMBERS } from "./form.ts";

export type FieldsProps = {
  form: Form;
  change: (part: Partial<Form>) => void;
  faultOf: (pointer: string) => string | undefined;
};

const SAYS: Readonly<Record<Method, string>> = {
  grpo: "GRPO: learn from a reward",
  rloo: "RLOO: learn from a reward, with few answers",
  distill: "Distillation: learn from a teacher, on one's own answers",
  sft: "SFT: learn from examples",
  dpo: "DPO: learn from preferred answers",
  kto: "KTO: learn from answers marked good or bad",
  orpo: "ORPO: learn from preferred answers, without a reference",
};

type Options = readonly (readonly [string, string])[];

/** The choice, also if the list does not have it (yet). */
const withChoice = (options: Options, value: string, shown = value): Options =>
  value === "" || options.some(([each]) => each === value) ? options : [...options, [value, shown]];

/** Results of runs too: an adapter is trained further on its base model. Embedding models are not trained. */
const isTrainable = ({ type, status, base_model: base }: Model) =>
  status === "ready" && (type === "model" || base !== null);

/** `carry, adapter of verk-tiny, step 40` */
const modelText = ({ name, type, base_model: base, job_id: job, checkpoint_step: step }: Model): string => {
  const from = type === "adapter" ? `, adapter of ${base}` : job === null ? "" : `, made from ${base}`;
  return `${name}${from}${step === null ? "" : `, step ${step}`}`;
};

/** A teacher needs no reward beside it; other methods cannot do without. */
const rewardFor = (method: Method, { reward }: Form): Partial<Form> => {
  if (method === "distill") return reward === "code" ? { reward: "none" } : {};
  return reward === "none" ? { reward: "code" } : {};
};

export function Basics({ form, change, faultOf }: FieldsProps) {
  const models = useResource<ListPage<Model>>("/v1/models?registry=true&limit=100", { events: ["model."] });
  const datasets = useResource<ListPage<Dataset>>("/v1/datasets?limit=100", { events: ["dataset."] });
  const runName = useRunNames();
  const trainable = (models.data?.data ?? []).filter(isTrainable);
  const whole = trainable.filter(({ type }) => type === "model");
  const rows: Options = (datasets.data?.data ?? []).map(({ id, name, num_rows: n }) => [
    id,
    n === null ? name : `${name} · ${count(n)} rows`,
  ]);
  return (
    <Card title="What to train">
      <div class="runs-form">
        <SelectField
          label="Base model"
          value={form.model}
          options={withChoice(
            [["", "Choose a model"], ...trainable.map((model) => [model.name, modelText(model)] as const)],
            form.model,
            form.model.startsWith("job_") ? `result of the run ${runName(form.model)}` : form.model,
          )}
          onChange={(model) => change({ model })}
          error={faultOf("/base_model")}
        />
        <SelectField
          label="Method"
          value={form.method}
          options={METHODS.map((method) => [method, SAYS[method]] as const)}
          onChange={(method) => change({ method, ...rewardFor(method, form) })}
          error={faultOf("/method")}
        />
        {form.method === "distill" && (
          <SelectField
            label="Teacher"
            value={form.teacher}
            options={withChoice(
              [["", "Choose a model"], ...whole.map((model) => [model.name, modelText(model)] as const)],
              form.teacher,
            )}
            onChange={(teacher) => change({ teacher })}
            error={faultOf("/teacher_model")}
            hint="a whole model with the same tokens"
          />
        )}
        <SelectField
          label="Dataset"
          value={form.dataset}
          options={withChoice([["", "Choose a dataset"], ...rows], form.dataset)}
          onChange={(dataset) => change({ dataset })}
          error={faultOf("/dataset")}
          hint={rows.length === 0 && datasets.data ? "No dataset yet: upload one first." : undefined}
        />
        <SelectField
          label="Held-out rows"
          value={form.evalDataset}
          options={withChoice([["", "None"], ...rows], form.evalDataset)}
          onChange={(evalDataset) => change({ evalDataset })}
          error={faultOf("/eval_dataset")}
        />
        <div class="all">
          {" "}
          <TextField
            label="Name"
            value={form.name}
            onInput={(name) => change({ name })}
            error={faultOf("/output_name")}
            hint="of the model that the run makes"
          />
        </div>
      </div>
    </Card>
  );
}

export function Reward({ form, change, faultOf, canKeep }: FieldsProps & { canKeep: boolean }) {
  const library = useResource<ListPage<RewardFunction>>("/v1/reward_functions/library");
  const stored = useResource<ListPage<RewardFunction>>("/v1/reward_functions?kind=reward&latest=true&limit=100", {
    events: ["reward_function."],
  });
  const usable = [...(stored.data?.data ?? []), ...(library.data?.data ?? [])].filter(
    ({ status }) => status !== "invalid",
  );
  const chosen = usable.find(({ id }) => id === form.reward);
  const options: Options = [
    ...(canKeep ? ([["keep", "As in the cloned run"]] as const) : []),
    ...(form.method === "distill" ? ([["none", "None: the teacher alone"]] as const) : []),
    ["code", "Code, written here"],
    ...usable.map(
      ({ id, name, version, builtin }) => [id, builtin ? `${name} (built in)` : `${name}, version ${version}`] as const,
    ),
  ];
  return (
    <Card title="Reward">
      <div class="stack">
        <SelectField
          label="Reward function"
          value={form.reward}
          options={withChoice(options, form.reward)}
          onChange={(reward) => change({ reward })}
          error={faultOf("/reward_functions")}
          hint={chosen?.description}
        />
        {form.reward === "code" && (
          <>
            <p class="muted">
              Python or TypeScript. A function gets the answers and the columns of the rows, and returns one number for
              each. A class with reset is an environment: its methods are the tools of a rollout of several turns.
            </p>
            {isStart(form.code) && (
              <div class="row">
                <Button onClick={() => change({ code: form.code === ENVIRONMENT ? REWARD : ENVIRONMENT })}>
                  {form.code === ENVIRONMENT ? "Begin with a function" : "Begin with an environment"}
                </Button>
              </div>
            )}
            <CodeEditor
              label="Reward code"
              value={form.code}
              onInput={(code) => change({ code })}
              language={detectLanguage(form.code) === "typescript" ? "typescript" : "python"}
              marks={marksOf(faultOf("/reward_source"))}
            />
          </>
        )}
      </div>
    </Card>
  );
}

type NumbersProps = FieldsProps & {
  resolved: Readonly<Record<string, unknown>> | null | undefined;
  steps: number | null | undefined;
};

export function Numbers({ form, change, faultOf, resolved, steps }: NumbersProps) {
  const automatic = (name: string) => {
    const value = name === "max_steps" ? steps : resolved?.[name]; // -1: by the epochs
    return typeof value === "number" && !form.numbers[name] ? `automatic: ${number(value)}` : undefined;
  };
  return (
    <Card title="How" note="empty fields are automatic">
      <div class="runs-form three">
        {NUMBERS.filter(({ methods }) => methods.includes(form.method)).map(({ name, label, hint }) => (
          <TextField
            key={name}
            label={label}
            value={form.numbers[name] ?? ""}
            onInput={(text) => change({ numbers: { ...form.numbers, [name]: text } })}
            error={faultOf(`/hyperparameters/${name}`)}
            hint={automatic(name) ?? hint}
          />
        ))}
        <TextField
          label="LoRA rank"
          value={form.rank}
          onInput={(rank) => change({ rank })}
          error={faultOf("/lora/r")}
          hint="0 trains all weights"
        />
        <TextField
          label="Seed"
          value={form.seed}
          onInput={(seed) => change({ seed })}
          error={faultOf("/seed")}
          hint="empty: random"
        />
        <TextField
          label="Budget"
          value={form.maxCost}
          onInput={(maxCost) => change({ maxCost })}
          error={faultOf("/max_cost_usd")}
          hint="in dollars; empty: no limit"
        />
        <div class="all">
          <JsonField
            label="More hyperparameters"
            value={form.more}
            onInput={(more) => change({ more })}
            rows={3}
            placeholder='{"temperature": 0.9, "lr_scheduler_type": "cosine"}'
            error={faultOf("/hyperparameters")}
            hint="JSON with the names of TRL"
          />
        </div>
      </div>
    </Card>
  );
}
