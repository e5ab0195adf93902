import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { World } from "../service/world.ts";

suite("what the proof has found", () => {
  test("Delete Blob with If-Match leaves blocks alone that wait where the blob is gone", async () => {
    const world = new World();
    await world.create("found");
    const { headers } = await world.put("/found/a", "one");
    await world.must("202", "DELETE", "/found/a");
    const query = { comp: "block", blockid: Buffer.from("id").toString("base64") };
    await world.must("201", "PUT", "/found/a", { query, body: "block" });
    const sent = { headers: { "if-match": headers.etag ?? "" } };
    await world.must("412 ConditionNotMet", "DELETE", "/found/a", sent);
    const list = { query: { comp: "blocklist", blocklisttype: "uncommitted" } };
    assert.match((await world.must("200", "GET", "/found/a", list)).text, /<Size>5</);
    await world.must("202", "DELETE", "/found/a");
  });

  test("a lease that was seen to have ended is not held again when the clock steps back", async () => {
    const world = new World();
    await world.create("found");
    await world.put("/found/a", "one");
    const acquire = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "15" };
    await world.comp("201", "/found/a", "lease", acquire);
    world.pass(16_000);
    const { headers } = await world.must("200", "GET", "/found/a");
    assert.equal(headers["x-ms-lease-state"], "expired");
    world.pass(-10_000);
    await world.comp("200", "/found/a", "metadata", { "x-ms-meta-a": "1" });
  });
});
