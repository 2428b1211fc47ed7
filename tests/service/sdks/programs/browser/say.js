// Says everything in calls.json with a browser SDK. Who is known stays known, so the call of nobody known comes first.
function say(analytics, optionsOf) {
  const anonymous = CALLS.find((call) => call.anonymousId);
  const known = CALLS.filter((call) => !call.anonymousId);
  analytics.setAnonymousId(anonymous.anonymousId);
  tell(analytics, anonymous, optionsOf(anonymous), () => {
    known.forEach((call) => tell(analytics, call, optionsOf(call)));
    window.saidAll = true;
  });
}

function tell(analytics, call, options, then) {
  const { type, userId, previousId, groupId, event, category, name, properties, traits } = call;
  const says = {
    identify: () => analytics.identify(userId, traits, options),
    track: () => analytics.track(event, properties, options, then),
    page: () => analytics.page(category, name, properties, options),
    screen: () => analytics.screen(category, name, properties, options),
    group: () => analytics.group(groupId, traits, options),
    alias: () => analytics.alias(userId, previousId, options),
  };
  if (analytics[type]) says[type](); // RudderStack's have no screen
}

function segmentOptions({ context, integrations, timestamp }) {
  return { context, integrations, timestamp: timestamp && new Date(timestamp) };
}

function rudderOptions({ context, integrations, timestamp }) {
  return { ...context, integrations, originalTimestamp: timestamp };
}
