/** One region: its state, its devices with their load, the work on it, and its check. */
import { useState } from "preact/hooks";
import type { GpuAvailability } from "../../../resources/machines/gpu/schema.ts";
import type { Region, RegionCheck } from "../../../resources/machines/regions/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { bytes, count, number, percent } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { Pill, State, toneOf } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { Steps } from "./steps.tsx";
import { addressOf, devicesOf, isLocal, kindOf, priceOf, type Work } from "./words.ts";

type NodeProps = {
  region: Region;
  devices: GpuAvailability | undefined;
  work: Work;
  onDelete: () => void;
};

export function Node({ region, devices, work, onDelete }: NodeProps) {
  const { id, name, available, reason, created_at: created } = region;
  const [found, setFound] = useState<RegionCheck | ApiError>();
  const check = async () => {
    try {
      setFound(await api<RegionCheck>(`/v1/regions/${encodeURIComponent(id)}/checks`, { method: "POST" }));
      await reload("/v1/regions");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFound(error);
    }
  };
  const isChangeable = created !== null && may("account", false);
  return (
    <Card
      class="regions-node"
      title={name}
      note={isLocal(region) ? undefined : kindOf(region)}
      side={<State status={available ? "ready" : "failed"} />}
    >
      {reason && <p class="regions-fault">{reason}</p>}
      <Hardware region={region} lines={devicesOf(region, devices)} />
      <Works work={work} />
      <div class="row">
        {isLocal(region) && <LinkButton href="/welcome">Check this machine</LinkButton>}
        {isChangeable && (
          <>
            <Button onClick={check} label={`Check ${name}`}>
              Check
            </Button>
            <Button kind="danger" onClick={onDelete} label={`Delete ${name}`}>
              Delete
            </Button>
          </>
        )}
      </div>
      <div role="status" aria-label={`Check of ${name}`}>
        {found instanceof ApiError && <ErrorBox error={found} title="The check could not be made" />}
        {found && !(found instanceof ApiError) && <Steps check={found} />}
      </div>
    </Card>
  );
}

function Hardware({ region, lines }: { region: Region; lines: readonly string[] }) {
  const { hardware, seen_at: seen, slurm } = region;
  const address = addressOf(region);
  const gpus = hardware?.gpus.filter(({ used_bytes: used }) => used !== null) ?? [];
  return (
    <>
      <Facts
        rows={[
          ...(address === undefined ? [] : [["Address", <code key="address">{address}</code>] as const]),
          ["Devices", <Lines key="devices" lines={lines} />],
          ...(hardware
            ? ([
                ["Processors", cpuText(hardware)],
                ["Memory", bytes(hardware.memory_bytes)],
                ["Free on its disk", bytes(hardware.disk_free_bytes)],
              ] as const)
            : []),
          ...(slurm ? ([["Partition", slurm.partition ?? "the default one"]] as const) : []),
          ["Price of one device", priceOf(region)],
          ...(isLocal(region) ? [] : ([["Answered", seen ? <Time key="seen" at={seen} /> : "never"]] as const)),
        ]}
      />
      {gpus.length > 0 && (
        <ul class="regions-gpus" aria-label="Devices">
          {gpus.map(({ type, memory_bytes: all, used_bytes: used, utilization_percent: busy }, i) => (
            <li key={i}>
              <span>
                <b>{`GPU ${i} · ${type}`}</b> {busy === null ? "" : `${number(busy)} % busy`}
              </span>
              <progress value={used ?? 0} max={Math.max(1, all)} aria-label={`Memory of GPU ${i}`} />
              <span class="n">{`${bytes(used)} of ${bytes(all)}, ${percent((used ?? 0) / Math.max(1, all))}`}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const cpuText = ({ cpus, load }: NonNullable<Region["hardware"]>) =>
  load === null ? count(cpus) : `${count(cpus)}, load ${number(load)}`;

const Lines = ({ lines }: { lines: readonly string[] }) => (
  <span class="regions-lines">
    {lines.map((line) => (
      <span key={line}>{line}</span>
    ))}
  </span>
);

function Works({ work: { jobs, deployments } }: { work: Work }) {
  const items = [
    ...jobs.map(({ id, output_name, status }) => ({ key: id, href: `/runs/${id}`, name: output_name, status })),
    ...deployments.map(({ id, name, status, parked }) => ({
      key: id,
      href: `/deployments/${id}`,
      name,
      status: parked ? "parked" : status,
    })),
  ];
  return (
    <div class="regions-work">
      <h3>Work here</h3>
      {items.length === 0 ? (
        <p class="muted">Nothing runs here now.</p>
      ) : (
        <ul aria-label="Work here">
          {items.map(({ key, href, name, status }) => (
            <li key={key}>
              <a class="ref" href={href}>
                {name}
              </a>
              <Pill tone={toneOf(status)}>{status}</Pill>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
