/** One detection: score, tier, heat map, models, signals, re-encoding and feedback. */
import type { Detection } from "../../../resources/detection/schema.ts";
import { bytes, duration } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card, Facts } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { Feedback } from "./feedback.tsx";
import type { Item } from "./files.ts";
import { HeatMap } from "./heat_map.tsx";
import { Matrix } from "./matrix.tsx";
import { Signals } from "./signals.tsx";
import { scoreOf, tierOf } from "./words.ts";

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
          side={<Copy text={linkTo(detection)} label="Copy a link to this result" />}
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
  return (
    <Card title="Models">
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
