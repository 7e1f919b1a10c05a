/** The first rows of an upload, as turns or as the text that a model reads. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { SHAPE_FACTS, type Shape } from "../../../lib/rows/shape.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { RenderedTemplate } from "../../../resources/serving/models/template.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { type Page, useResource } from "../../data/resource.ts";
import { SelectField } from "../../kit/field.tsx";
import type { Preview } from "./file_preview.ts";
import { Turns } from "./row_view.tsx";
import { conversationOf } from "./turns.ts";

export function PreviewRows({ preview: { rows, format, shape, faults } }: { preview: Preview }) {
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const models = useResource<Page<Model>>(rows.length > 0 ? "/v1/models?registry=true&limit=100" : null);
  const usable = (models.data?.data ?? []).filter(({ status, type }) => status === "ready" && type === "model");
  const model = chosen ?? usable[0]?.name ?? TURNS;
  const rendered = useTemplate(model, rows);
  return (
    <section class="stack" aria-label="Preview">
      <p class="muted">
        {format === undefined
          ? "No row found."
          : `${shape === undefined ? `Format ${format}` : foundText(shape)}. The first rows, as the model reads them in its chat template.`}
      </p>
      {format !== undefined && (
        <SelectField
          label="Show as"
          value={model}
          options={[[TURNS, "Turns"], ...usable.map(({ name }) => [name, `Text for ${name}`] as const)]}
          onChange={setChosen}
          error={rendered?.failed}
        />
      )}
      {faults.map(({ line, message }) => (
        <p key={line} class="bad" role="alert">
          Line {line}: {message}
        </p>
      ))}
      <div class="datasets-preview">
        {rows.map((row, i) => (
          <article key={i} aria-label={`Row ${i + 1}`}>
            <RowText row={row} rendered={model === TURNS ? undefined : rendered?.texts[i]} />
          </article>
        ))}
      </div>
    </section>
  );
}

const foundText = (shape: Shape) => `${SHAPE_FACTS[shape].label} → ${SHAPE_FACTS[shape].fields.join("/")}`;

/** No model has an empty name. */
const TURNS = "";

type Text = RenderedTemplate["conversations"][number];

function RowText({ row, rendered }: { row: Preview["rows"][number]; rendered: Text | undefined }) {
  if (!rendered) return <Turns row={row} />;
  if (rendered.text === null) return <p class="bad">{rendered.error}</p>;
  return (
    <div class="datasets-turn">
      <small>{plural(rendered.tokens ?? 0, "token")}</small>
      <pre class="text">{rendered.text}</pre>
    </div>
  );
}

type Rendering = { texts: readonly Text[]; failed: string | undefined };

/** Undefined until the server has answered: the turns are shown until then. */
function useTemplate(model: string, rows: Preview["rows"]): Rendering | undefined {
  const [rendered, setRendered] = useState<Rendering>();
  useEffect(() => {
    setRendered(undefined);
    if (model === TURNS || rows.length === 0) return;
    const stop = new AbortController();
    const body = { conversations: rows.map(conversationOf) };
    api<RenderedTemplate>(`/v1/models/${encodeURIComponent(model)}/template`, {
      method: "POST",
      body,
      signal: stop.signal,
    }).then(
      ({ conversations }) => setRendered({ texts: conversations, failed: undefined }),
      (cause: unknown) => !stop.signal.aborted && setRendered({ texts: [], failed: errorText(cause) }),
    );
    return () => stop.abort();
  }, [model, rows]);
  return rendered;
}
