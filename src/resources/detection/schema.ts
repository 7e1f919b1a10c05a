import { z } from "zod";
import { DECLARED, summaryOf } from "../../lib/detection/evidence.ts";
import { ensembleOf, PREDICTIONS, tierOf, VERDICTS } from "../../lib/detection/tiers.ts";
import { DateTime, Label, later, Metadata, numberText } from "../../lib/schema.ts";
import { isoTime } from "../../lib/time.ts";
import { CROP_SIZE, Heatmap, MODELS, ModelName, ModelResult, Signals } from "../../workers/protocol_detector.ts";
import { PLANS, publicResults } from "./policy.ts";
import { BATCH_STATUSES, type DetectionRow, type Feedback as FeedbackRow } from "./table.ts";

const Name = z.string().describe(`One of ${MODELS.join(", ")}`);
const modelChoice = () => ({
  model: Name.optional(),
  models: z.array(Name).min(1).max(16).optional().describe("Several models; the score is their mean"),
});
const robustness = z.boolean().default(false).describe("Score re-encoded and rescaled copies too, which takes longer");
const heatmap = z.boolean().default(false).describe("Score a grid of squares too, which takes up to a second longer");
const oneList = (body: { model?: string | undefined; models?: string[] | undefined }) => !(body.model && body.models);
const ONE_LIST = { path: ["models"], message: "give model or models, not both" };

/** The options of a form or of a request with the bytes of a file. */
export const ModelChoice = later(() =>
  z
    .object({ ...modelChoice(), robustness, heatmap })
    .refine(oneList, ONE_LIST)
    .meta({ id: "DetectOptions" }),
);
export type ModelChoice = z.infer<typeof ModelChoice>;

/** The same for the document: in a query every value is a text. */
export const DetectQuery = later(() =>
  z.object({
    model: Name.optional(),
    models: z.string().optional().describe("Several models, separated by commas"),
    robustness: z.string().optional().describe("true or false"),
    heatmap: z.string().optional().describe("true or false"),
  }),
);

const Base64 = z.string().describe("base64, also as a data: URL. At most 10 MB");

export const Detect = later(() =>
  z
    .object({
      image: Base64.optional().describe("JPEG, PNG, WebP or GIF; base64, at most 10 MB"),
      audio: Base64.optional().describe("WAV, FLAC or MP3; base64, at most 10 MB"),
      ...modelChoice(),
      robustness,
      heatmap,
    })
    .refine((body) => body.image !== undefined || body.audio !== undefined, {
      path: ["image"],
      message: "send an image as base64, or a clip of speech in audio",
    })
    .refine((body) => body.image === undefined || body.audio === undefined, {
      path: ["audio"],
      message: "send image or audio, not both",
    })
    .refine(oneList, ONE_LIST)
    .meta({ id: "Detect" }),
);

const Url = z.string().min(1).max(2048);

export const DetectUrl = later(() =>
  z
    .object({ url: Url.describe("http or https, publicly routable"), ...modelChoice(), robustness, heatmap })
    .refine(oneList, ONE_LIST)
    .meta({ id: "DetectUrl" }),
);

export const Feedback = later(() =>
  z
    .object({ label: z.enum(["ai", "real"]), comment: z.string().nullable(), timestamp: DateTime })
    .meta({ id: "DetectionFeedback" }),
);

export const GiveFeedback = later(() =>
  z
    .object({
      label: z.enum(["ai", "real"]).describe("What it really is"),
      comment: Label(2000).nullable().default(null),
    })
    .meta({ id: "GiveDetectionFeedback" }),
);
export type GiveFeedback = z.infer<typeof GiveFeedback>;

const Result = later(() =>
  ModelResult.unwrap().extend({
    score: z
      .number()
      .min(0)
      .max(1)
      .describe("Calibrated score. With the status error it is a placeholder of 0.5 that is ignored in the mean"),
  }),
);

export const Detection = later(() =>
  z
    .object({
      id: z.string(),
      prediction: z.enum(PREDICTIONS),
      confidence: z.number().min(0).max(1).describe("Twice the distance of the score from 0.5"),
      ensemble_score: z
        .number()
        .min(0)
        .max(1)
        .describe(
          "Higher means more likely generated. prediction, verdict, isFake and confidence follow from it alone",
        ),
      pixel_score: z
        .number()
        .min(0)
        .max(1)
        .describe("The mean of the calibrated scores of the models that succeeded, before it was moved"),
      verdict: z.enum(VERDICTS),
      reason: z
        .string()
        .nullable()
        .describe(
          "Why ensemble_score differs from pixel_score: a declaration of the file, or doubt about what the models can say",
        ),
      declared: z
        .enum(DECLARED)
        .describe("How the file itself declares that it was generated; anyone can write or remove metadata"),
      models_succeeded: z.int(),
      models_total: z.int(),
      model_results: z.partialRecord(ModelName, Result),
      detection_latency_ms: z.number(),
      isFake: z.boolean().nullable(),
      processingTimeMs: z.number(),
      imageHash: z.string().describe("SHA-256 of the file"),
      cached: z.boolean(),
      timestamp: DateTime.describe("Time of the detection; for a cached result, when it was made"),
      aboveThreshold: z.boolean().describe("True if the score is at least the account's defaultThreshold"),
      modelVersions: z.partialRecord(ModelName, z.string()),
      signals: Signals.unwrap()
        .extend({
          summary: z.string().describe("What is proven, what is claimed and what is guessed, in one sentence"),
        })
        .describe("What was found beside the score of the models. A declaration sets the lowest score"),
      heatmap: Heatmap.nullable().describe("Null unless the request has heatmap: true"),
      image: z
        .object({ width: z.int(), height: z.int(), format: z.string(), sizeBytes: z.int() })
        .nullable()
        .describe("Null for speech"),
      audio: z
        .object({
          seconds: z.number(),
          sampleRate: z.int(),
          channels: z.int(),
          format: z.string(),
          sizeBytes: z.int(),
        })
        .nullable()
        .describe("Null for images"),
      feedback: Feedback.nullable(),
    })
    .meta({ id: "Detection" }),
);
export type Detection = z.infer<typeof Detection>;

export const Crops = later(() =>
  z
    .object({
      id: z.string().describe("Id of the detection"),
      size: z.int().describe("Side of each square in pixels of the image"),
      crops: z
        .array(z.object({ x: z.int(), y: z.int(), score: z.number().min(0).max(1) }))
        .nullable()
        .describe("Null for speech, and for results of earlier versions"),
    })
    .meta({ id: "DetectionCrops" }),
);

export const presentCrops = ({ id, scored }: DetectionRow): z.infer<typeof Crops> => ({
  id,
  size: CROP_SIZE,
  crops: scored.crops ?? null,
});

const Prior = z
  .number()
  .min(0.001)
  .max(0.999)
  .describe("The share of generated files in your traffic, which moves every score by its log-odds; 0.5 moves none");

export const Config = later(() =>
  z
    .object({
      customerId: z.string(),
      defaultModels: z.array(ModelName),
      defaultThreshold: z.number().min(0).max(1),
      prior: Prior,
      webhookUrl: z.string().nullable(),
      cacheEnabled: z.boolean(),
      plan: z.enum(PLANS),
      credits: z.number(),
      webhookSecret: z.string().optional().describe("Only in the answer to a new webhookUrl and to rotate_secret"),
    })
    .meta({ id: "DetectionConfig" }),
);
export type Config = z.infer<typeof Config>;

export const ChangeConfig = later(() =>
  z
    .object({
      defaultModels: z.array(Name).min(1).max(16),
      defaultThreshold: z.number().min(0).max(1),
      prior: Prior,
      webhookUrl: Url.nullable().describe("An https address; null turns notifications off"),
      cacheEnabled: z.boolean(),
    })
    .partial()
    .meta({ id: "ChangeDetectionConfig" }),
);
export type ChangeConfig = z.infer<typeof ChangeConfig>;

export const MOST_ITEMS = 1_000;
const Item = later(() =>
  z
    .object({
      id: Label(200).optional().describe("Your id, unique within the batch. Default: the position in the list"),
      image: Base64.optional(),
      url: Url.optional(),
    })
    .refine((item) => (item.image === undefined) !== (item.url === undefined), "send either image or url"),
);

export const CreateBatch = later(() =>
  z
    .object({ images: z.array(Item).min(1).max(MOST_ITEMS), ...modelChoice(), metadata: Metadata.default({}) })
    .refine(oneList, ONE_LIST)
    .meta({ id: "CreateDetectionBatch" }),
);
export type CreateBatch = z.infer<typeof CreateBatch>;

export const Batch = later(() =>
  z
    .object({
      jobId: z.string(),
      status: z.enum(BATCH_STATUSES),
      totalImages: z.int(),
      successCount: z.int(),
      failureCount: z.int(),
      createdAt: DateTime,
      finishedAt: DateTime.nullable(),
      metadata: z.record(z.string(), z.string()),
    })
    .meta({ id: "DetectionBatch" }),
);
export type Batch = z.infer<typeof Batch>;

const BatchResult = later(() =>
  z
    .object({
      id: z.string(),
      status: z.enum(["pending", "success", "error", "cancelled"]),
      result: Detection.nullable().describe("Null: pending, failed, or past retention"),
      error: z.string().nullable(),
      code: z.string().nullable(),
    })
    .meta({ id: "DetectionBatchResult" }),
);

export const BatchResults = later(() =>
  z
    .object({ jobId: z.string(), results: z.array(BatchResult), hasMore: z.boolean() })
    .meta({ id: "DetectionBatchResults" }),
);

export const ResultsQuery = later(() =>
  z.object({
    limit: numberText(z.int().min(1).max(MOST_ITEMS)).default(100).describe("How many results at most"),
    after: z.string().optional().describe("Id of the last result of the previous page"),
  }),
);
export type ResultsQuery = z.infer<typeof ResultsQuery>;

const presentFeedback = (feedback: FeedbackRow) => ({
  label: feedback.label,
  comment: feedback.comment,
  timestamp: isoTime(feedback.atMs),
});

type PresentOptions = { threshold?: number; prior?: number; cached?: boolean; processingMs?: number };

/** A cached result is shown with the processing time, the threshold and the prior of this request. */
export function present(row: DetectionRow, options: PresentOptions = {}): Detection {
  const { media, models, versions, signals } = row.scored;
  const ensemble = ensembleOf(row.scored, options.prior ?? row.prior);
  if (!ensemble) throw new Error(`Detection ${row.id} was kept without a score`);
  const { format } = media;
  const file = { format, sizeBytes: row.sizeBytes };
  return {
    id: row.id,
    prediction: ensemble.prediction,
    confidence: ensemble.confidence,
    ensemble_score: ensemble.score,
    pixel_score: ensemble.pixelScore,
    verdict: ensemble.verdict,
    reason: ensemble.reason,
    declared: ensemble.declared,
    models_succeeded: ensemble.succeeded,
    models_total: ensemble.total,
    model_results: publicResults(models),
    detection_latency_ms: row.detectionMs,
    isFake: ensemble.isFake,
    processingTimeMs: options.processingMs ?? row.processingMs,
    imageHash: row.imageHash,
    cached: options.cached ?? false,
    timestamp: isoTime(row.createdAt),
    aboveThreshold: ensemble.score >= (options.threshold ?? row.threshold),
    modelVersions: versions,
    signals: { ...signals, summary: summaryOf(signals, tierOf(ensemble.pixelScore).prediction) },
    heatmap: row.scored.heatmap ?? null,
    image: media.kind === "image" ? { width: media.width, height: media.height, ...file } : null,
    audio:
      media.kind === "audio"
        ? { seconds: media.seconds, sampleRate: media.sample_rate, channels: media.channels, ...file }
        : null,
    feedback: row.feedback && presentFeedback(row.feedback),
  };
}
