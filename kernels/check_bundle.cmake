# cmake -DBUNDLER=... -DBUNDLE=... -DTARGETS=gfx90a,... -P: fails unless the bundle has a code object for every target.
foreach(option input inputs)  # the latter before clang 15
  execute_process(COMMAND ${BUNDLER} --list --type=o --${option}=${BUNDLE}
    RESULT_VARIABLE status OUTPUT_VARIABLE list ERROR_VARIABLE problem)
  if(status EQUAL 0)
    break()
  endif()
endforeach()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${BUNDLER} cannot list ${BUNDLE}: ${problem}")
endif()
string(REPLACE "," ";" TARGETS "${TARGETS}")
foreach(target ${TARGETS})
  if(NOT "${list}" MATCHES "amdgcn-amd-amdhsa-[^\n]*-${target}(\n|$)")
    message(FATAL_ERROR "${BUNDLE} has nothing for ${target}; it has\n${list}")
  endif()
endforeach()
