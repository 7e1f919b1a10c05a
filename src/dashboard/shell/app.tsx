import { useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { stopFeed } from "../data/events.ts";
import { forgetAll } from "../data/resource.ts";
import { session } from "../data/session.ts";
import { SetupPage } from "../pages/setup/setup.tsx";
import { Frame } from "./frame.tsx";
import { path } from "./router.ts";
import { resume } from "./sign_in.ts";
import { SignInPage } from "./sign_in_page.tsx";
import { Toasts } from "./toasts.tsx";

/** The page of the session's state. The setup link needs no session: it makes one. */
export function App() {
  useEffect(() => void resume(), []);
  useSignalEffect(() => {
    if (session.value.is !== "out") return;
    stopFeed();
    forgetAll();
  });
  const state = session.value;
  return (
    <>
      {path.value === "/setup" && <SetupPage />}
      {path.value !== "/setup" && state.is === "out" && <SignInPage why={state.why} />}
      {path.value !== "/setup" && state.is === "in" && <Frame />}
      <Toasts />
    </>
  );
}
