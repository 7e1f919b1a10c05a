/** One detection: score, tier, heat map, models, signals, re-encoding and feedback. */

import { useState } from "preact/hooks";
import { signatureWords } from "../../../lib/detection/signature_words.ts";
import type { Detection } from "../../../resources/detection/schema.ts";
import { api } from "../../data/api.ts";
import { bytes, duration, NONE } from "../../data/format.ts";
import { reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Copy } from "../../kit/copy.tsx";
import { TextField } from "../../kit/field.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { change, type Item } from "./files.ts";
import { HeatMap } from "./heat_map.tsx";
import { Matrix } from "./matrix.tsx";
import { chartOf, scoreOf, tierOf } from "./words.ts";

type Crops = { size: number; crops: { x: number; y: number; score: number }[] | null };

/** `item`: the file, if this browser still has it. */
export function Result({ detection, item, name }: { detection: Detection; item?: Item | undefined; name: string }) {
  const { image } = detection;
  const crops = useResource<Crops>(image ? `/api/detect/${detection.id}/crops` : null).data;
  return (
    <div class="grid two">
      <div class="grid">
        <Card
          title={name}
          note={aboutOf(detection)}
          side={
            <span class="detect-buttons">
              <a
                class="btn"
                href={`/api/detect/${encodeURIComponent(detection.id)}/report`}
                target="_blank"
                rel="noopener"
              >
                Report
              </a>
              <Copy text={linkTo(detection)} label="Copy a link to this result" />
            </span>
          }
        >
          <Score detection={detection} />
          {image && (
            <HeatMap
              url={item?.url}
              width={image.width}
              height={image.height}
              size={crops?.size ?? 256}
              crops={crops?.crops ?? []}
            />
          )}
          {detection.audio && item && (
            // biome-ignore lint/a11y/useMediaCaption: the user's own file has no captions
            <audio class="detect-audio" src={item.url} controls />
          )}
        </Card>
        {image && item && <Matrix item={item} detection={detection} />}
      </div>
      <div class="grid">
        <Models detection={detection} />
        <Signals detection={detection} />
        <Feedback detection={detection} item={item} />
      </div>
    </div>
  );
}

const linkTo = ({ id }: Detection) => `${location.origin}/detect/${id}`;

function aboutOf({ image, audio }: Detection): string {
  if (image) return `${image.format.toUpperCase()}, ${image.width} × ${image.height}, ${bytes(image.sizeBytes)}`;
  if (audio) return `${audio.format.toUpperCase()}, ${duration(audio.seconds)}, ${bytes(audio.sizeBytes)}`;
  return "";
}

function Score({ detection: { ensemble_score: score, prediction, reason } }: { detection: Detection }) {
  const { text, tone } = tierOf(prediction);
  return (
    <div class="detect-score">
      <b class="n">{scoreOf(score)}</b>
      <Pill tone={tone}>{text}</Pill>
      <div class="detect-scale" role="img" aria-label={`Score ${scoreOf(score)} from 0, real, to 1, generated`}>
        <i style={{ left: `${score * 100}%` }} />
      </div>
      <div class="detect-ends">
        <small>0 real</small>
        <small>1 generated</small>
      </div>
      {reason !== null && <small>{reason}</small>}
    </div>
  );
}

function Models({ detection }: { detection: Detection }) {
  const rows = Object.entries(detection.model_results).map(
    ([name, result]) =>
      [name, result.status === "success" ? scoreOf(result.score) : (result.error ?? "failed")] as const,
  );
  const scores = Object.entries(detection.model_results).flatMap(([name, { status, score }]) =>
    status === "success" ? [{ name, score }] : [],
  );
  const ensemble = { name: "together", score: detection.ensemble_score };
  return (
    <Card title="Models">
      <Chart {...chartOf("Scores of the models", "model", [...scores, ensemble], "All together")} height={200} />
      <Facts
        rows={[
          ...rows,
          ["Took", duration(detection.processingTimeMs / 1000)],
          ["Created", <Time key="made" at={detection.timestamp} />],
          ...(detection.cached ? ([["From the cache", "yes"]] as const) : []),
        ]}
      />
      <p class="detect-care">A score is evidence about pixels or sound. It proves nothing about a person.</p>
    </Card>
  );
}

/** Says what the file really was. Later feedback replaces earlier. */
function Feedback({ detection, item }: { detection: Detection; item: Item | undefined }) {
  const [comment, setComment] = useState(detection.feedback?.comment ?? "");
  const give = (label: "ai" | "real") => async () => {
    const body = { label, comment: comment === "" ? null : comment };
    const path = `/api/detect/${detection.id}`;
    const next = await attempt(() => api<Detection>(`${path}/feedback`, { method: "POST", body }), "Thank you");
    if (next && item) change(item.key, { detection: { ...detection, feedback: next.feedback } });
    await reload(path);
  };
  const { feedback } = detection;
  return (
    <Card title="What was it really?">
      <div class="stack">
        {feedback && (
          <p role="status">
            {"You said "}
            <b>{feedback.label === "ai" ? "generated" : "real"}</b> <Time at={feedback.timestamp} />
          </p>
        )}
        <TextField label="Comment" value={comment} onInput={setComment} hint="Optional, kept with the result" />
        <div class="row">
          <Button onClick={give("ai")}>It was generated</Button>
          <Button onClick={give("real")}>It was real</Button>
        </div>
      </div>
    </Card>
  );
}

/** Claims of the file, and its watermark. A declaration that it was generated sets the lowest score. */
function Signals({ detection: { signals, imageHash, declared } }: { detection: Detection }) {
  const { c2pa, metadata, watermark } = signals;
  return (
    <Card title="Evidence" note={declared === "none" ? "nothing declares it generated" : "declares itself generated"}>
      <p class="detect-summary">{signals.summary}</p>
      <Facts
        rows={[
          ["Content credentials", c2pa?.present ? "present (C2PA)" : "none"],
          ...(c2pa?.present
            ? ([
                ["Content hash", hashWords(c2pa.hash_valid)],
                ["Signature", c2pa.signature ? signatureWords(c2pa.signature) : NONE],
                ["Made with", c2pa.claim_generator ?? NONE],
                ["Source type", c2pa.digital_source_type?.split("/").at(-1) ?? NONE],
              ] as const)
            : []),
          ["Watermark", watermark?.generator ?? NONE],
          ["Generator", c2pa?.generator ?? metadata.generator ?? NONE],
          ...(metadata.model ? ([["Model", metadata.model]] as const) : []),
          ...(metadata.prompt ? ([["Prompt", metadata.prompt]] as const) : []),
          ["Software", metadata.software ?? NONE],
          ["Camera", metadata.camera ?? NONE],
          ["SHA-256", <code key="hash">{`${imageHash.slice(0, 16)}…`}</code>],
        ]}
      />
    </Card>
  );
}

const hashWords = (isValid: boolean | null): string => {
  if (isValid === null) return "nothing to compare";
  return isValid ? "matches the file" : "does not match the file";
};
