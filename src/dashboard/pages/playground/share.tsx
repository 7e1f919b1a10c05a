/** A conversation leaves the playground: as JSON, as a row of a dataset, or as an item for annotators. */
import { useState } from "preact/hooks";
import type { Format } from "../../../lib/rows/format.ts";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { api } from "../../data/api.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Json } from "../../kit/json.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";
import { itemOf, rowOf, type Talk } from "./rows.ts";

export type Shared = {
  key: string;
  title: string;
  talk: Talk;
  /** The chat request that the conversation is. */
  request: object;
};

type ShareProps = { columns: readonly Shared[]; onClose: () => void };

export function Share({ columns, onClose }: ShareProps) {
  const [key, setKey] = useState(columns[0]?.key ?? "");
  const shared = columns.find((each) => each.key === key) ?? columns[0];
  const tab = tabOf("json", "share");
  const tabs: [string, string][] = [["json", "JSON"]];
  if (may("training", false)) tabs.push(["dataset", "Add to dataset"], ["queue", "Send to queue"]);
  return (
    <Dialog title="Share the conversation" onClose={onClose} wide>
      <Tabs label="Ways to share" name="share" tabs={tabs} />
      <div class="stack">
        {columns.length > 1 && (
          <SelectField
            label="Column"
            value={key}
            options={columns.map((each) => [each.key, each.title] as const)}
            onChange={setKey}
          />
        )}
        {shared && tab === "dataset" && <ToDataset talk={shared.talk} onClose={onClose} />}
        {shared && tab === "queue" && <ToQueue talk={shared.talk} onClose={onClose} />}
        {shared && tab !== "dataset" && tab !== "queue" && <AsJson of={shared.request} />}
      </div>
    </Dialog>
  );
}

function AsJson({ of }: { of: object }) {
  const text = JSON.stringify(of, null, 2);
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  return (
    <>
      <p class="muted">The body of a chat request: POST /v1/chat/completions goes on from here.</p>
      <pre class="text playground-json">{text}</pre>
      <div class="row">
        <a class="btn primary" href={address} download="conversation.json">
          Download
        </a>
        <Copy text={text} label="Copy the JSON" shown="Copy" />
      </div>
    </>
  );
}

const NEW = "";
const NEW_FORMATS: readonly (readonly [Format, string])[] = [
  ["chat", "The whole conversation (SFT)"],
  ["completion", "The last answer to what is above it (SFT)"],
  ["preference", "The last answer before another one (DPO)"],
  ["prompt", "The question alone (GRPO)"],
];

function ToDataset({ talk, onClose }: { talk: Talk; onClose: () => void }) {
  const datasets = useResource<ListPage<Dataset>>("/v1/datasets?limit=100").data?.data ?? [];
  const streams = datasets.filter(({ source_type: type }) => type === "upload");
  const [id, setId] = useState(NEW);
  const [name, setName] = useState("playground");
  const [format, setFormat] = useState<Format>("chat");
  const chosen = streams.find((each) => each.id === id);
  const made = rowOf(talk, chosen?.format ?? format);
  const add = async () => {
    if ("why" in made) return;
    const done = await attempt(async () => {
      const to =
        chosen ?? (await api<Dataset>("/v1/datasets", { method: "POST", body: { name: name.trim(), format } }));
      await api(`/v1/datasets/${to.id}/rows`, { method: "POST", body: { rows: [made.row] } });
      return to;
    });
    if (!done) return;
    toast(`Added a row to ${done.name}`);
    await reload("/v1/datasets");
    onClose();
  };
  return (
    <>
      <div class="grid half">
        <SelectField
          label="Dataset"
          value={id}
          options={[
            [NEW, "A new dataset"],
            ...streams.map((each) => [each.id, `${each.name} (${each.format})`] as const),
          ]}
          onChange={setId}
        />
        {chosen === undefined && <TextField label="Name" value={name} onInput={setName} />}
      </div>
      {chosen === undefined && <SelectField label="Row" value={format} options={NEW_FORMATS} onChange={setFormat} />}
      <Preview of={"row" in made ? made.row : made.why} />
      <div class="row">
        <Button kind="primary" onClick={add} disabled={"why" in made || (chosen === undefined && name.trim() === "")}>
          Add row
        </Button>
      </div>
    </>
  );
}

const Preview = ({ of }: { of: object | string }) =>
  typeof of === "string" ? (
    <p class="warn" role="status">
      {of}
    </p>
  ) : (
    <div class="playground-json">
      <Json value={of} />
    </div>
  );

function ToQueue({ talk, onClose }: { talk: Talk; onClose: () => void }) {
  const queues = useResource<ListPage<AnnotationQueue>>("/v1/annotation_queues?limit=100").data?.data;
  const [id, setId] = useState("");
  const queue = queues?.find((each) => each.id === id) ?? queues?.[0];
  if (queues && !queue)
    return (
      <p class="muted">
        No queue yet.{" "}
        <a class="ref" href="/annotate">
          Create one
        </a>{" "}
        and come back.
      </p>
    );
  if (!queue) return null;
  const made = itemOf(talk, queue.mode);
  const add = async () => {
    if ("why" in made) return;
    const path = `/v1/annotation_queues/${queue.id}`;
    const done = await attempt(() => api(`${path}/items`, { method: "POST", body: { items: [made.item] } }));
    if (done === undefined) return;
    toast(`Sent to ${queue.name}`);
    await reload("/v1/annotation_queues");
    onClose();
  };
  return (
    <>
      <SelectField
        label="Queue"
        value={queue.id}
        options={(queues ?? []).map((each) => [each.id, `${each.name} (${each.mode})`] as const)}
        onChange={setId}
      />
      <Preview of={"item" in made ? made.item : made.why} />
      <div class="row">
        <Button kind="primary" onClick={add} disabled={"why" in made}>
          Send
        </Button>
      </div>
    </>
  );
}
