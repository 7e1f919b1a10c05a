import { useSignalEffect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { stopFeed } from "../data/events.ts";
import { forgetAll } from "../data/resource.ts";
import { session } from "../data/session.ts";
import { SetupPage } from "../pages/setup/setup.tsx";
import { Frame } from "./frame.tsx";
import { InvitationPage } from "./invitation_page.tsx";
import { path } from "./router.ts";
import { resume } from "./sign_in.ts";
import { SignInPage } from "./sign_in_page.tsx";
import { Toasts } from "./toasts.tsx";

/** Links that need no session: they make one. */
const OPEN: Readonly<Record<string, () => VNode>> = { "/setup": SetupPage, "/invitation": InvitationPage };

/** The page of the session's state. */
export function App() {
  useEffect(() => void resume(), []);
  useSignalEffect(() => {
    if (session.value.is !== "out") return;
    stopFeed();
    forgetAll();
  });
  const state = session.value;
  const Open = OPEN[path.value];
  return (
    <>
      {Open && <Open />}
      {!Open && state.is === "out" && <SignInPage why={state.why} />}
      {!Open && state.is === "in" && <Frame />}
      <Toasts />
    </>
  );
}
