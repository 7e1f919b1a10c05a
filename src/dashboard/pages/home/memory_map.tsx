/** One bar for each device, one segment for each lease, and below it what waits for memory and why. */
import type { Gpu, GpuAvailability } from "../../../resources/machines/gpu/schema.ts";
import { bytes, plural } from "../../data/format.ts";
import { freeOf, type Names, type Segment, segmentsOf, waitingOf } from "../../data/gpu_map.ts";
import { areAnswered, type Page as ListPage, type Resource, useResource } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { Loaded, Skeleton } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";

const POLL_MS = 3_000;
/** Part of a bar that is wide enough for a word. */
const ROOM_FOR_LABEL = 0.12;

export type Memory = {
  gpus: Resource<ListPage<Gpu>>;
  queue: Resource<GpuAvailability>;
  /** False while nothing is known of the height of the map. Nothing is drawn below it before. */
  isAnswered: boolean;
};

/** `isWanted` false: nothing is loaded, for a caller who may not see it. */
export function useMemory(isWanted = true): Memory {
  const options = { events: ["job.", "deployment."], everyMs: POLL_MS };
  const gpus = useResource<ListPage<Gpu>>(isWanted ? "/v1/gpu?limit=100" : null, options);
  const queue = useResource<GpuAvailability>(isWanted ? "/v1/gpu/availability" : null, options);
  return { gpus, queue, isAnswered: areAnswered(gpus, queue) };
}

export function MemoryMap({ memory: { gpus, queue, isAnswered }, names }: { memory: Memory; names: Names }) {
  const [device] = gpus.data?.data ?? [];
  return (
    <Card title={device && device.uuid !== null ? "GPU memory" : "Memory for models"}>
      <Loaded of={isAnswered ? gpus : { ...gpus, data: undefined }} skeleton={<Skeleton height={118} />}>
        {({ data }) => (
          <div class="stack">
            {data[0]?.uuid === null && (
              <p class="home-note muted">
                This machine has no GPU that Verk can use. Models run on the processor and take main memory.{" "}
                <a href="/welcome">Check the machine</a>
              </p>
            )}
            {data.map((gpu) => (
              <Device key={gpu.id} gpu={gpu} names={names} />
            ))}
          </div>
        )}
      </Loaded>
      {isAnswered && queue.data && <Queue availability={queue.data} names={names} />}
    </Card>
  );
}

function Device({ gpu, names }: { gpu: Gpu; names: Names }) {
  const segments = segmentsOf(gpu, names);
  const figures = [
    bytes(gpu.memory_total_bytes),
    gpu.utilization_percent === null ? "" : `${gpu.utilization_percent} % busy`,
    gpu.temperature_celsius === null ? "" : `${gpu.temperature_celsius} °C`,
    gpu.power_watts === null ? "" : `${Math.round(gpu.power_watts)} W`,
  ].filter((figure) => figure !== "");
  return (
    <div class="home-device">
      <div class="home-figures">
        <span>
          <b>
            {gpu.uuid === null ? (gpu.name === "unknown" ? "Main memory" : gpu.name) : `GPU ${gpu.index} · ${gpu.name}`}
          </b>{" "}
          {figures.join(" · ")}
        </span>
        <span class="n">{bytes(freeOf(gpu))} free</span>
      </div>
      <div class="home-bar" aria-hidden="true">
        {segments.map(({ key, label, detail, share, colour }) => (
          <div key={key} style={{ width: `${share * 100}%`, background: colour }} title={detail}>
            {share > ROOM_FOR_LABEL && label}
          </div>
        ))}
      </div>
      <ul class="home-holders" aria-label={`${plural(segments.length, "holder")} of memory`}>
        {segments.map((segment) => (
          <Legend key={segment.key} segment={segment} />
        ))}
        {segments.length === 0 && <li>Nothing is loaded.</li>}
      </ul>
    </div>
  );
}

const Legend = ({ segment: { detail, href, colour } }: { segment: Segment }) => (
  <li>
    <i style={{ background: colour }} />
    {href === undefined ? detail : <a href={href}>{detail}</a>}
  </li>
);

function Queue({ availability, names }: { availability: GpuAvailability; names: Names }) {
  const waiting = waitingOf(availability, names);
  if (waiting.length === 0) return null;
  return (
    <ol class="home-queue" aria-label="Waits for memory">
      {waiting.map(({ key, holder, reason, bytes: wanted, since }, i) => (
        <li key={key}>
          {i === 0 ? "Next: " : "Then: "}
          <b>{holder.href === undefined ? holder.name : <a href={holder.href}>{holder.name}</a>}</b>{" "}
          {`needs ${bytes(wanted)}. It ${reason.replace(/^Waits/, "waits")}. `}
          <Time at={since} />
        </li>
      ))}
    </ol>
  );
}
