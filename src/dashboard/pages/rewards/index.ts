import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/rewards",
    title: "Rewards and evaluators",
    load: () => import("./list.tsx"),
    nav: { group: "Data", icon: "rewards", name: "Rewards" },
    area: "training",
    jump: "w",
  },
  { path: "/rewards/evaluators/:id", title: "Evaluator", load: () => import("./evaluator.tsx"), area: "training" },
  { path: "/rewards/:id", title: "Reward", load: () => import("./reward.tsx"), area: "training" },
];
