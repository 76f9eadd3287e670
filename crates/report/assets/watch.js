// Collects script errors where a test finds them: window.farlunErrors, and data-errors of the root element.
window.farlunErrors = [];
window.farlunFail = (error) => {
  window.farlunErrors.push(String(error));
  document.documentElement.dataset.errors = window.farlunErrors.join(" | ");
};
window.addEventListener("error", (event) => window.farlunFail(event.message));
window.addEventListener("unhandledrejection", (event) => window.farlunFail(event.reason));
window.addEventListener("securitypolicyviolation", (event) => window.farlunFail("forbidden request: " + event.blockedURI));
