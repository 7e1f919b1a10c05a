/** Every picture: an address, and what a person does there before it is worth a look. */
import sharp from "sharp";
import { PAGES } from "../../src/dashboard/pages/pages.ts";
import { match } from "../../src/dashboard/shell/match.ts";
import type { Dashboard } from "../../test/browser/kit.ts";
import type { World } from "./world.ts";

export type Shot = {
  name: string;
  path: string;
  /** A run trains meanwhile. */
  isLive?: boolean;
  prepare?: (page: Dashboard) => Promise<unknown>;
};

const SLOW_MS = 120_000;

export function shotsOf(world: World & { live: string }): Shot[] {
  const play = (path: string) => ({
    path,
    prepare: async (page: Dashboard) => {
      await page.click("button", "Send");
      await page.waitFor("the answers", async () => (await page.text()).split("Answered by").length > 2, SLOW_MS);
    },
  });
  const opened = (name: string, path: string, button: string): Shot => ({
    name,
    path,
    prepare: (page) => page.click("button", button),
  });
  return [
    { name: "home", path: "/", isLive: true },
    { name: "runs", path: "/runs", isLive: true },
    { name: "run_live", path: `/runs/${world.live}`, isLive: true },
    { name: "run", path: `/runs/${world.run}?step=20` },
    { name: "run_parts", path: `/runs/${world.parts}` },
    { name: "run_failed", path: `/runs/${world.broken}` },
    { name: "runs_compare", path: `/runs/compare?ids=${world.run},${world.other}` },
    {
      name: "runs_new",
      path: `/runs/new?from=${world.run}`,
      prepare: (page) => page.waitForText("ready to start", SLOW_MS),
    },
    {
      name: "playground",
      ...play(`/playground?cols=${world.base},${world.tuned}&prompt=${encodeURIComponent(world.prompt)}&max_tokens=24`),
    },
    opened("playground_picker", "/playground", "Add column"),
    { name: "models", path: "/models" },
    { name: "model", path: `/models/${world.model}` },
    opened("model_quantize", `/models/${world.model}`, "Quantize"),
    opened("model_export", `/models/${world.model}`, "Export"),
    opened("model_delete", `/models/${world.copy}`, "Delete"),
    opened("model_pull", "/models", "Pull from the hub"),
    { name: "datasets", path: "/datasets" },
    {
      name: "dataset",
      path: `/datasets/${world.dataset}`,
      prepare: (page) =>
        page.waitFor("a row", () =>
          page.run<boolean>("(document.querySelectorAll('button.datasets-line')[4]?.click(), !!location.search)"),
        ),
    },
    { name: "dataset_columns", path: `/datasets/${world.dataset}?tab=columns` },
    { name: "dataset_changes", path: `/datasets/${world.dataset}?tab=changes` },
    { name: "dataset_runs", path: `/datasets/${world.dataset}?tab=lineage` },
    { name: "dataset_about", path: `/datasets/${world.dataset}?tab=about` },
    { name: "rewards", path: "/rewards" },
    { name: "rewards_builtin", path: "/rewards?tab=library" },
    { name: "evaluators", path: "/rewards?tab=evaluators" },
    { name: "reward", path: `/rewards/${world.digits}?run=${world.run}&step=12`, prepare: scored },
    { name: "evaluator", path: `/rewards/evaluators/${world.evaluator}` },
    { name: "evaluator_new", path: "/rewards/evaluators/new" },
    {
      name: "evaluator_code",
      path: `/rewards/evaluators/new?from=${world.code}`,
      prepare: (page) => page.waitForText("Scored"),
    },
    { name: "experiments", path: "/experiments" },
    { name: "experiment", path: `/experiments/${world.experiment}` },
    { name: "experiment_new", path: "/experiments/new" },
    { name: "annotate", path: "/annotate" },
    { name: "queue", path: `/annotate/${world.queue}` },
    { name: "work_pair", path: `/annotate/${world.queue}/work` },
    { name: "work_single", path: `/annotate/${world.labels}/work` },
    { name: "deployments", path: "/deployments" },
    { name: "deployment", path: `/deployments/${world.tuned}` },
    { name: "deployment_requests", path: `/deployments/${world.tuned}?tab=requests` },
    { name: "deployment_adapters", path: `/deployments/${world.tuned}?tab=adapters` },
    { name: "deployment_settings", path: `/deployments/${world.tuned}?tab=settings` },
    { name: "deployment_log", path: `/deployments/${world.tuned}?tab=log` },
    { name: "deployment_connect", path: `/deployments/${world.tuned}?tab=connect` },
    { name: "deployment_new", path: "/deployments/new" },
    { name: "agents", path: "/agents" },
    { name: "agent", path: "/agents/tutor" },
    { name: "agent_edit", path: "/agents/tutor/edit" },
    { name: "agent_new", path: "/agents/new" },
    { name: "rollouts", path: "/rollouts" },
    { name: "rollout", path: `/rollouts/${world.rollout}` },
    { name: "rollout_tokens", path: `/rollouts/${world.rollout}?tab=tokens`, prepare: spelled },
    { name: "rollout_reward", path: `/rollouts/${world.rollout}?tab=tokens&colour=worth`, prepare: spelled },
    { name: "rollout_times", path: `/rollouts/${world.rollout}?tab=times` },
    { name: "rollouts_compare", path: `/rollouts/compare?ids=${world.rollout},${world.otherRollout}` },
    { name: "traces", path: `/traces?deployment_id=${world.tuned}` },
    { name: "trace", path: `/traces/${world.trace}` },
    { name: "conversations", path: "/conversations" },
    { name: "conversation", path: "/conversations/sums-1" },
    { name: "monitors", path: "/monitors" },
    { name: "monitor", path: `/monitors/${world.monitor}` },
    {
      name: "monitor_new",
      path: `/monitors?new=1&deployment_id=${world.tuned}`,
      prepare: async (page) => {
        await page.waitFor("the dialog", () => page.has("spinbutton", "Alert above"));
        await page.run(
          `[...document.querySelectorAll("label")].find((at) => at.innerText === "Alert above").control.focus()`,
        );
        await page.type("200");
        await page.waitForText("fired");
      },
    },
    opened("monitor_edit", `/monitors/${world.monitor}`, "Edit"),
    { name: "detect", path: "/detect", prepare: detect },
    { name: "detection", path: `/detect/${world.detection}` },
    { name: "webhooks", path: "/webhooks" },
    { name: "webhooks_feed", path: "/webhooks?tab=feed" },
    { name: "endpoint", path: `/webhooks/${world.endpoint}` },
    { name: "endpoint_failing", path: `/webhooks/${world.failing}` },
    {
      name: "endpoint_delivery",
      path: `/webhooks/${world.endpoint}`,
      prepare: (page) => page.run("document.querySelector('.webhooks-delivery button')?.click()"),
    },
    {
      name: "endpoint_test",
      path: `/webhooks/${world.endpoint}`,
      prepare: async (page) => {
        await page.click("button", "Send test event");
        await page.waitFor("the answer", () => page.run("!!document.querySelector('.webhooks-answer')"));
      },
    },
    opened("endpoint_resend", `/webhooks/${world.endpoint}`, "Resend what failed"),
    opened("endpoint_new", "/webhooks", "New endpoint"),
    { name: "endpoint_settings", path: `/webhooks/${world.endpoint}?tab=settings` },
    { name: "keys", path: "/keys" },
    opened("key_new", "/keys", "New key"),
    { name: "workspaces", path: "/keys?tab=workspaces" },
    { name: "usage", path: "/usage" },
    { name: "usage_by_key", path: "/usage?by=key&measure=tokens" },
    { name: "audit", path: "/audit" },
    { name: "settings", path: "/settings" },
    { name: "people", path: "/people" },
    opened("person", "/people", "Manage grace@example.com"),
    opened("invite", "/people", "Invite"),
    { name: "regions", path: "/regions" },
    { name: "region_new", path: "/regions?new=1" },
    { name: "me", path: "/me" },
    { name: "welcome", path: "/welcome" },
    { name: "search", path: "/", prepare: (page) => page.press("k", "ctrl") },
    { name: "not_found", path: "/nowhere" },
    { name: "docs", path: "/docs" },
    { name: "sign_in", path: "/", prepare: signOut }, // the last one: it ends the session
  ];
}

const nameOf = (pattern: string) => pattern.replaceAll(/\W+/g, "_").replace(/^_|_$/g, "") || "home";

/** Pages of a server without anything in it. Those of one thing say that there is no such thing. */
export const emptyShots = (): Shot[] =>
  PAGES.map(({ path }) => ({ name: nameOf(path), path: path.replaceAll(/:\w+/g, "none") }));

/** Every page of the table at the address of its first picture. */
export function pageShots(full: readonly Shot[]): Shot[] {
  return PAGES.map(({ path: pattern }) => {
    const patternOf = (path: string) => PAGES.find((page) => match(page.path, path.split("?")[0] ?? ""))?.path;
    const shot = full.find(({ path }) => patternOf(path) === pattern);
    if (!shot) throw new Error(`no picture shows the page ${pattern}`);
    return { name: nameOf(pattern), path: shot.path };
  });
}

/** On a phone the button is in the menu. */
async function signOut(page: Dashboard) {
  await page.run(`document.querySelector('button[aria-label="Sign out"]').click()`);
  await page.waitFor("the page for signing in", async () => (await page.text()).includes("API key"));
}

const spelled = (page: Dashboard) =>
  page.waitFor("the tokens", () => page.run<boolean>("!!document.querySelector('.rollouts-tokens')"), SLOW_MS);

const scored = (page: Dashboard) =>
  page.waitFor("the histogram", () => page.run<boolean>("!!document.querySelector('.rewards-histogram')"), SLOW_MS);

/** Drops a drawn landscape and a plain pattern, and waits for their scores. */
async function detect(page: Dashboard) {
  for (const [name, svg] of [
    ["pattern.jpg", PATTERN],
    ["landscape.jpg", LANDSCAPE],
  ] as const) {
    const bytes = await sharp(Buffer.from(svg)).jpeg({ quality: 90 }).toBuffer();
    await page.run(`(() => {
      const raw = Uint8Array.from(atob("${bytes.toString("base64")}"), (c) => c.charCodeAt(0));
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([raw], "${name}", { type: "image/jpeg" }));
      document.querySelector(".detect-drop").dispatchEvent(new DragEvent("drop", { bubbles: true, dataTransfer }));
    })()`);
  }
  await page.waitForText("2 done", SLOW_MS);
  await page.waitFor("the squares", () => page.run<boolean>("!!document.querySelector('.detect-frame rect')"), SLOW_MS);
}

const LANDSCAPE = `<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="760">
  <defs>
    <linearGradient id="sky" x2="0" y2="1"><stop stop-color="#27406b"/><stop offset=".55" stop-color="#e59a7a"/><stop offset=".75" stop-color="#f6d7a3"/></linearGradient>
    <filter id="grain"><feTurbulence baseFrequency=".8" numOctaves="3"/><feColorMatrix values="0 0 0 0 .5 0 0 0 0 .5 0 0 0 0 .5 0 0 0 .22 0"/></filter>
    <filter id="soft"><feGaussianBlur stdDeviation="1.4"/></filter>
  </defs>
  <rect width="1200" height="760" fill="url(#sky)"/><circle cx="830" cy="420" r="58" fill="#fff1cf" filter="url(#soft)"/>
  <path d="M0 470 180 330 330 440 520 260 760 480 930 370 1200 500V760H0z" fill="#6a5a7c" filter="url(#soft)"/>
  <path d="M0 560 240 460 430 540 690 430 960 560 1200 480V760H0z" fill="#41415f"/>
  <path d="M0 660C300 590 520 700 800 630S1120 600 1200 640V760H0z" fill="#232a3e"/>
  <rect width="1200" height="760" filter="url(#grain)" opacity=".5"/>
</svg>`;
const PATTERN = `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="480">
  <defs><pattern id="p" width="64" height="64" patternUnits="userSpaceOnUse"><rect width="64" height="64" fill="#0f766e"/><circle cx="32" cy="32" r="22" fill="#f6d7a3"/></pattern></defs>
  <rect width="640" height="480" fill="url(#p)"/>
</svg>`;
