/** Three steps from a new server to a better model: the machine, a training, what to do next. */
import { may } from "../../data/session.ts";
import { Empty, Page as Frame } from "../../kit/page.tsx";
import { queryOf } from "../../shell/router.ts";
import { FirstRun } from "./first_run.tsx";
import { Machine } from "./machine.tsx";

export const Page = () => (
  <Frame title="Get started" purpose="From a new server to a trained model in about two minutes.">
    {may("admin") ? (
      <div class="grid setup-steps">
        <FirstRun id={queryOf("run")} />
        <Machine />
      </div>
    ) : (
      <Empty title="This page needs an admin key" command="verk keys create --scope admin">
        Sign in with an admin key to check the machine.
      </Empty>
    )}
  </Frame>
);
