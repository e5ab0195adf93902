import { QueueServiceClient } from "@azure/storage-queue";

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";
const queue = QueueServiceClient.fromConnectionString(connection).getQueueClient("work");
await queue.createIfNotExists();
for (let task = 1; task <= 10; task++) await queue.sendMessage(String(task));

let sum = 0;

/** Takes tasks until there are none; one that is not deleted within 30 seconds goes to somebody else. */
async function work(): Promise<void> {
  for (;;) {
    const options = { numberOfMessages: 2, visibilityTimeout: 30 };
    const { receivedMessageItems: tasks } = await queue.receiveMessages(options);
    if (tasks.length === 0) return;
    for (const { messageText, messageId, popReceipt } of tasks) {
      sum += Number(messageText);
      await queue.deleteMessage(messageId, popReceipt);
    }
  }
}

await Promise.all([work(), work(), work()]);
process.stdout.write(`${sum}\n`); // 55
