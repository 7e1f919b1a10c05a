/** One model: what it can do, the memory that it needs, its family, and everything that can be done with it. */
import { useRef, useState } from "preact/hooks";
import { bytes, count } from "../../data/format.ts";
import { areAnswered, type Resource, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Ref } from "../../kit/content.tsx";
import { Copy } from "../../kit/copy.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill, State } from "../../kit/pill.tsx";
import { Progress } from "../../kit/progress.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import { TrainOn } from "../runs/new/train_on.tsx";
import type { PageProps } from "../spec.ts";
import { DeleteModel, QuantizeModel, RenameModel } from "./dialogs.tsx";
import { ExportModel } from "./export.tsx";
import { Family, ModelState } from "./family.tsx";
import { CONTEXTS, useModels } from "./list.tsx";
import { kept, treeOf } from "./tree.ts";
import { isOpen, isOwn, type Model, type ModelCapabilities, modelPath } from "./types.ts";
import { abilities, doingText, parameters, sourceText, tokens } from "./words.ts";

export function Page({ params }: PageProps) {
  const path = modelPath(params["id"] ?? "");
  const model = useResource<Model>(`${path}?registry=true`, { events: ["model."], everyMs: 2_000 });
  const models = useModels();
  const data = areAnswered(models) ? model.data : undefined; // its family is the first card
  return (
    <Frame
      title={data?.name ?? "Model"}
      above={[["Models", "/models"]]}
      beside={data && <ModelState model={data} />}
      actions={data && <Actions model={data} />}
    >
      <Loaded of={{ ...model, data }} skeleton={<Skeleton height={420} />}>
        {(loaded) => (
          <div class="grid two">
            <div class="grid">
              <Relatives model={loaded} models={models} />
              {isOpen(loaded) && (
                <Card title="Under way">
                  <Progress label={doingText(loaded)} done={loaded.progress ?? 0} total={1}>
                    {doingText(loaded)}
                  </Progress>
                </Card>
              )}
              {loaded.status === "ready" && <Abilities key={loaded.id} model={loaded} />}
            </div>
            <About model={loaded} />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

/** Always there, so that nothing moves when the model becomes ready. */
function Actions({ model }: { model: Model }) {
  const isReady = model.status === "ready";
  return (
    <>
      {may("training", false) && <TrainOn model={model.name} isOff={!isReady} />}
      {may("inference", false) && (
        <Button
          kind="primary"
          disabled={!isReady}
          onClick={() => navigate(`/deployments/new?model=${encodeURIComponent(model.name)}`)}
        >
          Deploy
        </Button>
      )}
    </>
  );
}

type Open = "quantize" | "export" | "rename" | "delete";

function Changes({ model }: { model: Model }) {
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const isReady = model.status === "ready";
  const mayWrite = may("inference", false);
  const own = mayWrite && isOwn(model);
  return (
    <div class="row">
      {mayWrite && (
        <Button disabled={!isReady || model.type !== "model"} onClick={() => setOpen("quantize")}>
          Quantize
        </Button>
      )}
      <Button disabled={!isReady} onClick={() => setOpen("export")}>
        Export
      </Button>
      {own && <Button onClick={() => setOpen("rename")}>Rename</Button>}
      {own && (
        <Button kind="danger" onClick={() => setOpen("delete")}>
          Delete
        </Button>
      )}
      {open === "rename" && <RenameModel model={model} onClose={close} />}
      {open === "quantize" && <QuantizeModel model={model} onClose={close} />}
      {open === "export" && <ExportModel model={model} onClose={close} />}
      {open === "delete" && <DeleteModel model={model} onClose={close} />}
    </div>
  );
}

function Abilities({ model }: { model: Model }) {
  const chosen = queryOf("context") ?? "4096";
  const path = modelPath(model.id, `/capabilities?context_length=${encodeURIComponent(chosen)}`);
  const found = useResource<ModelCapabilities>(path, { events: ["deployment."] });
  const before = useRef<ModelCapabilities>(undefined); // of another context: shown until the new figures are here
  before.current = found.data ?? before.current;
  const last = model.context_length;
  const options = CONTEXTS.filter((each) => last === null || Number(each) < last).map(
    (each) => [each, `${count(Number(each))} tokens`] as const,
  );
  const own: (readonly [string, string])[] = last === null ? [] : [[String(last), `${count(last)} tokens, its most`]];
  const all = [...options, ...own];
  const value = all.some(([each]) => each === chosen) ? chosen : (all.at(-1)?.[0] ?? chosen);
  return (
    <Loaded of={{ ...found, data: before.current }} skeleton={<Skeleton height={420} />}>
      {(data) => (
        <>
          <Card title="What it can do">
            <Facts rows={abilities(data)} />
          </Card>
          <Card
            title="Memory"
            side={
              <SelectField label="Context" value={value} options={all} onChange={(context) => setQuery({ context })} />
            }
            class="models-memory"
          >
            {data.memory ? (
              <Memory memory={data.memory} parallel={data.parallel} />
            ) : (
              <p class="muted">It is not known before the base model is here.</p>
            )}
          </Card>
          <Card title="Served by">
            <Servers of={data.deployments} />
          </Card>
        </>
      )}
    </Loaded>
  );
}

const Servers = ({ of }: { of: ModelCapabilities["deployments"] }) =>
  of.length === 0 ? (
    <p class="muted">No deployment serves it now.</p>
  ) : (
    <ul class="models-dependents">
      {of.map(({ id, name, status }) => (
        <li key={id}>
          <Ref page="/deployments/:id" id={id} children={name} /> <State status={status} />
        </li>
      ))}
    </ul>
  );

type MemoryProps = { memory: NonNullable<ModelCapabilities["memory"]>; parallel: number };

/** The parts of the memory as one bar, each with its size. */
function Memory({ memory, parallel }: MemoryProps) {
  const parts = [
    ["Weights", memory.weights_bytes],
    ["Cache", memory.cache_bytes],
    ["Computing", memory.compute_bytes],
    ["Adapter", memory.adapter_bytes],
    ["Projector", memory.projector_bytes],
  ] as const;
  const shown = parts.filter(([, size]) => size > 0);
  return (
    <div class="stack">
      <p>
        <b class="n">{bytes(memory.total_bytes)}</b>{" "}
        <span class="muted">{`estimated, for ${count(parallel)} conversations at once`}</span>{" "}
        <Pill tone={memory.fits ? "good" : "bad"}>{memory.fits ? "fits this machine" : "does not fit"}</Pill>
      </p>
      {memory.reason !== null && <p class="bad">{memory.reason}</p>}
      <div class="models-bar" role="img" aria-label={shown.map(([name, size]) => `${name} ${bytes(size)}`).join(", ")}>
        {shown.map(([name, size]) => (
          <i key={name} style={{ flexGrow: size }} />
        ))}
      </div>
      <ul class="models-legend">
        {shown.map(([name, size]) => (
          <li key={name}>
            <i />
            {name} <span class="n muted">{bytes(size)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

type RelativesProps = { model: Model; models: Resource<readonly Model[]> };

function Relatives({ model, models }: RelativesProps) {
  return (
    <Card title="Family">
      <Loaded of={models} skeleton={<Skeleton rows={3} />}>
        {(all) => <Family label="Family" nodes={kept(treeOf(all), ({ id }) => id === model.id)} current={model.id} />}
      </Loaded>
    </Card>
  );
}

function About({ model }: { model: Model }) {
  const rows = [
    ["Kind", model.type === "adapter" ? "Adapter (LoRA)" : "Model"] as const,
    ["Origin", sourceText(model)] as const,
    model.base_model !== null &&
      ([
        model.type === "adapter" ? "Base model" : "Made from",
        model.base_model_id === null ? (
          model.base_model
        ) : (
          <Ref key="b" page="/models/:id" id={model.base_model_id} children={model.base_model} />
        ),
      ] as const),
    model.job_id !== null && (["Run", <Ref key="r" page="/runs/:id" id={model.job_id} />] as const),
    model.checkpoint_step !== null && (["Step", count(model.checkpoint_step)] as const),
    ["Architecture", model.architecture ?? "–"] as const,
    ["Parameters", parameters(model.parameters)] as const,
    ["Weights", model.quantization ?? "–"] as const,
    ["Size", bytes(model.size_bytes)] as const,
    ["Longest context", tokens(model.context_length)] as const,
    model.has_chat_template !== null && (["Chat template", model.has_chat_template ? "Yes" : "No"] as const),
    model.file !== null && (["File of the hub", model.file] as const),
    ["Created", <Time key="t" at={model.created_at} />] as const,
    [
      "Id",
      <span key="i" class="models-id">
        <code>{model.id}</code>
        <Copy text={model.id} label="Copy the id" />
      </span>,
    ] as const,
    model.sha256 !== null && (["Sha256", <code key="s">{model.sha256}</code>] as const),
  ];
  return (
    <Card title="About">
      <div class="stack">
        <Changes model={model} />
        <Facts rows={rows.filter((row) => row !== false)} />
      </div>
    </Card>
  );
}
