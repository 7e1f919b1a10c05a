import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  { path: "/welcome", title: "Get started", load: () => import("./welcome.tsx"), area: "training" },
];
