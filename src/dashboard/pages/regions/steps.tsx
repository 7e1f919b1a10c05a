import type { CheckStep, RegionCheck } from "../../../resources/machines/regions/schema.ts";
import { duration } from "../../data/format.ts";
import { Pill, type Tone } from "../../kit/pill.tsx";

const NAMES: Readonly<Record<CheckStep["name"], string>> = {
  address: "Address",
  host_key: "Host key",
  sign_in: "Sign in",
  work_dir: "Directory",
  slurm: "Slurm",
  devices: "Devices",
  program: "Program",
};
const STATES: Readonly<Record<CheckStep["state"], readonly [Tone, string]>> = {
  ok: ["good", "OK"],
  failed: ["bad", "Failed"],
  skipped: ["idle", "Skipped"],
};

/** The steps of a check, with the fix for the one that failed. */
export const Steps = ({ check: { ok, steps } }: { check: RegionCheck }) => (
  <div class="regions-steps">
    <b>{ok ? "Every step succeeded" : "The check failed"}</b>
    <ol>
      {steps.map(({ name, state, message, fix, ms }) => {
        const [tone, word] = STATES[state];
        return (
          <li key={name}>
            <Pill tone={tone}>{word}</Pill>
            <span>
              <b>{NAMES[name]}</b> {message}
              {fix !== null && <em>{fix}</em>}
            </span>
            <small class="n">{state === "skipped" ? "" : duration(ms / 1000)}</small>
          </li>
        );
      })}
    </ol>
  </div>
);
