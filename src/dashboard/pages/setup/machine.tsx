import type { SystemChecks } from "../../../resources/server/system/checks.ts";
import { plural } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill, type Tone } from "../../kit/pill.tsx";

type Check = SystemChecks["checks"][number];

const LOOKS: Readonly<Record<Check["status"], { tone: Tone; word: string }>> = {
  ok: { tone: "good", word: "Good" },
  warn: { tone: "warn", word: "Warning" },
  fail: { tone: "bad", word: "Failed" },
};
const ORDER = ["fail", "warn", "ok"];

/** The checks of `verk doctor`. Problems come first, each with its fix. */
export function Machine() {
  const checks = useResource<SystemChecks>("/v1/system/checks");
  return (
    <Card
      title="This machine"
      note={checks.data ? summaryOf(checks.data.checks) : "checking, about five seconds"}
      side={
        <Button kind="quiet" onClick={checks.refresh} disabled={checks.loading}>
          Check again
        </Button>
      }
    >
      <Loaded of={checks} skeleton={<Skeleton rows={20} />}>
        {({ checks: all }) => (
          <ul class="setup-checks">
            {all
              .toSorted((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))
              .map((check) => (
                <Line key={check.check} check={check} />
              ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

function summaryOf(checks: readonly Check[]): string {
  const of = (status: Check["status"]) => checks.filter((check) => check.status === status).length;
  const bad = [of("fail") ? plural(of("fail"), "problem") : "", of("warn") ? plural(of("warn"), "warning") : ""];
  const problems = bad.filter((part) => part !== "").join(", ");
  return problems === "" ? `all ${checks.length} checks passed` : problems;
}

const Line = ({ check: { check, status, detail, fix } }: { check: Check }) => (
  <li>
    <Pill tone={LOOKS[status].tone}>{LOOKS[status].word}</Pill>
    <b>{check.charAt(0).toUpperCase() + check.slice(1)}</b>
    <div>
      <p>{detail}</p>
      {fix !== null && (
        <div class="setup-fix">
          <span>{`Fix: ${fix}`}</span>
          <Copy text={fix} label={`Copy the fix of ${check}`} />
        </div>
      )}
    </div>
  </li>
);
