/** Two steps from a new server to a better model: a first training, and the check of the machine. */
import { may } from "../../data/session.ts";
import { Card } from "../../kit/card.tsx";
import { Command } from "../../kit/copy.tsx";
import { Page as Frame } from "../../kit/page.tsx";
import { queryOf } from "../../shell/router.ts";
import { FirstRun } from "./first_run.tsx";
import { Machine } from "./machine.tsx";

export const Page = () => (
  <Frame title="Get started" purpose="From a new server to a trained model in about two minutes.">
    <div class="grid setup-steps">
      <FirstRun id={queryOf("run")} />
      {may("admin") ? <Machine /> : <MachineByCommand />}
    </div>
  </Frame>
);

/** The checks show paths of the server, so only an administrator sees them here. */
const MachineByCommand = () => (
  <Card title="This machine">
    <div class="setup-offer">
      <p>Only an admin key may check the machine from here. On the server, run:</p>
      <Command text="verk doctor" />
    </div>
  </Card>
);
